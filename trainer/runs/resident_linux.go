package runs

import (
	"bytes"
	"os"
	"strconv"
)

// resident returns the bytes of the process in physical memory, -1 if they are unknown.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm") // pages: size resident shared …
	if err != nil {
		return -1
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return -1
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return -1
	}
	return pages * int64(os.Getpagesize())
}
