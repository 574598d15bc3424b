package cpu

import "unsafe"

// Everything unsafe in the package's Go code is here: seeing bytes of an arena as elements.

// view returns b as elements of T. Bind has checked that operands are aligned for it.
func view[T any](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// bytesOf returns the memory of s.
func bytesOf[T any](s []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// as returns the same memory as elements of another type of the same size.
func as[T, S word | float](s []S) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

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
