// Package reduce combines arrays of numbers element by element: what engines of package group
// compute themselves, so that their results have the same bits.
//
// [Add] and [Max] work on bytes in the order of the machine. The arrays are aligned to their
// elements, have the same length, and do not overlap, unless they are the same.
package reduce

import (
	"math"
	"unsafe"

	"gonum.org/v1/gonum/blas/gonum"

	"github.com/evenkeel/evenkeel/arena"
)

// Adds reports whether Add knows the type.
func Adds(t arena.DType) bool { return t == arena.Float32 || Compares(t) }

// Compares reports whether Max knows the type.
func Compares(t arena.DType) bool { return t == arena.Float64 || t == arena.Int32 || t == arena.Int64 }

// Add adds src to dst, rounded once for each element. Integers wrap around. Floats are added as
// dst + 1·src by gonum, which has vector instructions: the product is exact.
func Add(t arena.DType, dst, src []byte) {
	switch t {
	case arena.Float32:
		d := of[float32](dst)
		gonum.Implementation{}.Saxpy(len(d), 1, of[float32](src), 1, d, 1)
	case arena.Float64:
		d := of[float64](dst)
		gonum.Implementation{}.Daxpy(len(d), 1, of[float64](src), 1, d, 1)
	case arena.Int32:
		addIntegers[int32](dst, src)
	case arena.Int64:
		addIntegers[int64](dst, src)
	}
}

func addIntegers[T int32 | int64](dst, src []byte) {
	d, s := of[T](dst), of[T](src)
	for i, v := range s[:len(d)] {
		d[i] += v
	}
}

// Max sets each element of dst to the greater one of dst and src. NaN is greater than all numbers
// and becomes the NaN of math.NaN; 0 is greater than -0. So the order of arrays does not matter.
func Max(t arena.DType, dst, src []byte) {
	switch t {
	case arena.Float64:
		d, s := of[float64](dst), of[float64](src)
		for i, v := range s[:len(d)] {
			d[i] = math.Max(d[i], v)
			if d[i] != d[i] {
				d[i] = math.NaN()
			}
		}
	case arena.Int32:
		maxIntegers[int32](dst, src)
	case arena.Int64:
		maxIntegers[int64](dst, src)
	}
}

func maxIntegers[T int32 | int64](dst, src []byte) {
	d, s := of[T](dst), of[T](src)
	for i, v := range s[:len(d)] {
		d[i] = max(d[i], v)
	}
}

// of views bytes as numbers.
func of[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}
