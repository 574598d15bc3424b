package cpu

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// systemMemory returns the total and the free memory of this process in bytes: those of the
// machine, or of its control group where that has a lower limit.
func systemMemory() (total, free int64, err error) {
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return 0, 0, err
	}
	unit := max(int64(s.Unit), 1)
	total = int64(s.Totalram) * unit
	free = (int64(s.Freeram) + int64(s.Bufferram)) * unit
	if n, ok := available(); ok {
		free = n
	}
	if limit, ok := number("/sys/fs/cgroup/memory.max"); ok && limit < total {
		total = limit
		if used, ok := number("/sys/fs/cgroup/memory.current"); ok {
			free = min(free, max(limit-used, 0))
		}
	}
	return total, min(free, total), nil
}

// number returns the number that a file holds.
func number(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil
}

// available returns the bytes that can be used without swapping, as Linux reports them.
func available() (int64, bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(b, []byte("MemAvailable:"))
	if !ok {
		return 0, false
	}
	rest, _, _ = bytes.Cut(rest, []byte("kB"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
	return n << 10, err == nil
}
