//go:build !linux

package runs

// resident returns -1: the bytes of the process in physical memory are read on Linux only.
func resident() int64 { return -1 }
