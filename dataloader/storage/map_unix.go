//go:build unix

package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the first n bytes of f, to be read.
func mapFile(f *os.File, n int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
}

// unmapFile unmaps what mapFile returned.
func unmapFile(b []byte) error { return unix.Munmap(b) }
