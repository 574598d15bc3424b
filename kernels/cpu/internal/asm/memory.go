package asm

import "unsafe"

// Float is a type that arithmetic is done in.
type Float interface{ float32 | float64 }

// Word is an element that is moved and not computed with.
type Word interface{ uint8 | uint32 | uint64 }

// CacheLine is the size of a cache line in bytes.
const CacheLine = 64

// AlignLine rounds bytes up to whole cache lines.
func AlignLine(bytes int) int { return (bytes + CacheLine - 1) &^ (CacheLine - 1) }

// SizeOf returns the size of a T in bytes.
func SizeOf[T Float]() int {
	var z T
	if _, ok := any(z).(float32); ok {
		return 4
	}
	return 8
}

// View returns the memory of b as elements of T, dropping a part of an element at the end. The
// address of b must be a multiple of the element's alignment. The result shares b's memory.
func View[T any](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// Bytes returns the memory of s.
func Bytes[T any](s []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// As returns the memory of s as elements of another type of the same size.
func As[T, S Word | Float](s []S) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// Fill sets every element of dst to v.
func Fill[T any](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}
