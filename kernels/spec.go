package kernels

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// Shape lists the dimensions of a tensor, row-major: the last one is contiguous. A scalar has none.
type Shape []int

// Elems returns the number of elements; 1 for a scalar.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal reports whether both shapes have the same dimensions.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// String writes the shape as (2, 3).
func (s Shape) String() string {
	b := []byte{'('}
	for i, d := range s {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Append(b, d)
	}
	return string(append(b, ')'))
}

// Spec is the type and shape of a tensor. Tensors are always contiguous.
type Spec struct {
	Type  arena.DType
	Shape Shape
}

// Bytes returns what the tensor occupies.
func (s Spec) Bytes() int64 { return int64(s.Shape.Elems()) * s.Type.Size() }

// Equal reports whether type and shape agree.
func (s Spec) Equal(t Spec) bool { return s.Type == t.Type && s.Shape.Equal(t.Shape) }

// String writes the spec as float32 (2, 3).
func (s Spec) String() string { return s.Type.String() + " " + s.Shape.String() }
