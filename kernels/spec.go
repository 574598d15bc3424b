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

// Bytes returns the size of the tensor in bytes.
func (s Spec) Bytes() int64 { return int64(s.Shape.Elems()) * s.Type.Size() }

// mostBytes limits a tensor: it exceeds the memory of any device, and sums of such sizes do not
// overflow.
const mostBytes = 1 << 46

// Check returns an error that wraps ErrShape if a dimension is below 0 or the tensor has more than
// 2^46 bytes.
func (s Spec) Check() error {
	n := s.Type.Size()
	for _, d := range s.Shape {
		if d < 0 {
			return fmt.Errorf("%v: a dimension below 0: %w", s, ErrShape)
		}
		if d == 0 {
			return nil
		}
		if n > mostBytes/int64(d) {
			return fmt.Errorf("%v has more than 2^46 bytes: %w", s, ErrShape)
		}
		n *= int64(d)
	}
	return nil
}

// Equal reports whether types and shapes are equal.
func (s Spec) Equal(t Spec) bool { return s.Type == t.Type && s.Shape.Equal(t.Shape) }

// String writes the spec as float32 (2, 3).
func (s Spec) String() string { return s.Type.String() + " " + s.Shape.String() }
