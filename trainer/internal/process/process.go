// Package process reads what the operating system says about this process.
package process

import (
	"bytes"
	"os"
	"strconv"
)

// Resident returns the bytes of the process in physical memory; ok is false where the system does not
// say, as any but Linux.
func Resident() (n int64, ok bool) {
	b, err := os.ReadFile("/proc/self/statm") // pages: size resident shared …
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
