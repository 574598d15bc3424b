package asmtest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// A Page is a page of memory between two pages that fault when they are read or written.
type Page []byte

// NewPage maps a page until the test ends.
func NewPage(t testing.TB) Page {
	t.Helper()
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, 3*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(b[page:2*page], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return b[page : 2*page]
}

// Elements returns n elements of T that lie at the end of the page, or at its start.
func Elements[T any](p Page, n int, atEnd bool) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if atEnd {
		return asm.View[T](p)[len(p)/size-n:]
	}
	return asm.View[T](p)[:n]
}
