package dataloader

import (
	"reflect"
	"strconv"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
)

// Element is a Go type with a storage type. int is stored as int64, on a 32-bit machine as int32.
type Element interface {
	~float32 | ~float64 | ~uint8 | ~int32 | ~int64 | ~int
}

// typeOf returns the storage type of T.
func typeOf[T Element]() arena.DType {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Float32:
		return arena.Float32
	case reflect.Float64:
		return arena.Float64
	case reflect.Uint8:
		return arena.Uint8
	case reflect.Int32:
		return arena.Int32
	case reflect.Int64:
		return arena.Int64
	}
	if strconv.IntSize == 32 {
		return arena.Int32
	}
	return arena.Int64
}

// bytesOf returns the memory of data as bytes, without a copy.
func bytesOf[T Element](data []T) []byte {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(data[0])))
}

// View returns the memory of b, one field of a sample or batch, as elements of type T, for Fetch
// and Map to read and write. It returns nil if b is not a whole number of elements or not aligned
// for T. The memory that a loader passes is aligned for the type of the field if its [Slot] is.
func View[T Element](b []byte) []T {
	var t T
	size := int(unsafe.Sizeof(t))
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) == 0 || len(b)%size != 0 || uintptr(p)%unsafe.Alignof(t) != 0 {
		return nil
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}
