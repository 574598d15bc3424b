package cpu

import "unsafe"

// Addresses of Go memory. Views of memory as elements are in internal/asm.

// aligned returns n zeroed bytes whose address is a multiple of align, a power of two.
func aligned(n int64, align int) []byte {
	b := make([]byte, n+int64(align)-1)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (align - 1)
	return b[skip : int64(skip)+n : int64(skip)+n]
}

// misaligned reports whether the address of b is not a multiple of align.
func misaligned(b []byte, align int64) bool {
	return align > 1 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(align) != 0
}

// same reports whether a and b start at the same address.
func same(a, b []byte) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }
