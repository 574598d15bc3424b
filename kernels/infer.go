package kernels

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// shapeError names the operation and the mismatch, and wraps ErrShape.
func shapeError(op, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", op, fmt.Sprintf(format, args...), ErrShape)
}

// attrError names the operation and the attribute that is wrong, and wraps ErrAttrs.
func attrError(op, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", op, fmt.Sprintf(format, args...), ErrAttrs)
}

// attrsOf returns attrs as type T, which op requires.
func attrsOf[T any](op string, attrs any) (T, error) {
	a, ok := attrs.(T)
	if !ok {
		return a, attrError(op, "takes %T, not %T", a, attrs)
	}
	return a, nil
}

// noAttrs returns an error if attrs are given to an op that has none.
func noAttrs(op string, attrs any) error {
	if attrs != nil {
		return attrError(op, "takes no attributes, not %T", attrs)
	}
	return nil
}

// count returns an error unless there are n operands.
func count(op string, in []Spec, n int) error {
	if len(in) != n {
		return shapeError(op, "takes %d operands, not %d", n, len(in))
	}
	return nil
}

// floats returns an error unless there are n operands of one floating-point type.
func floats(op string, in []Spec, n int) error {
	if err := count(op, in, n); err != nil {
		return err
	}
	for _, s := range in {
		if !s.Type.Float() || s.Type != in[0].Type {
			return shapeError(op, "operands must be float32 or float64, all alike, not %v", in)
		}
	}
	return nil
}

// integer reports whether t can hold labels and indices.
func integer(t arena.DType) bool {
	return t == arena.Uint8 || t == arena.Int32 || t == arena.Int64
}

// checkShape returns an error for a target shape with a negative dimension.
func checkShape(op string, s Shape) error {
	for _, d := range s {
		if d < 0 {
			return attrError(op, "shape %v has a negative dimension", s)
		}
	}
	return nil
}

// broadcastShapes returns the shape that shapes broadcast to, by NumPy's rules: aligned at the last
// dimension, where dimensions agree or are 1.
func broadcastShapes(shapes ...Shape) (Shape, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make(Shape, rank)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &out[rank-len(s)+i]
			switch {
			case *o == 1:
				*o = d
			case d != 1 && d != *o:
				return nil, fmt.Errorf("%v do not broadcast: %w", shapes, ErrShape)
			}
		}
	}
	return out, nil
}

// strides returns the elements from one index to the next, by dimension.
func strides(s Shape) []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= s[i]
	}
	return st
}

// broadcastStrides returns the strides of s broadcast to out: 0 along dimensions that are repeated.
func broadcastStrides(s, out Shape) []int {
	st := make([]int, len(out))
	own := strides(s)
	for i, d := range s {
		if d != 1 {
			st[len(out)-len(s)+i] = own[i]
		}
	}
	return st
}

// forEachIndex visits the elements of shape in row-major order. i counts them; at[k] is the
// element's offset by strides[k].
func forEachIndex(shape Shape, strides [][]int, visit func(i int, at []int)) {
	at := make([]int, len(strides))
	index := make([]int, len(shape))
	for i, n := 0, shape.Elems(); i < n; i++ {
		visit(i, at)
		for d := len(shape) - 1; d >= 0; d-- {
			index[d]++
			for k := range at {
				at[k] += strides[k][d]
			}
			if index[d] < shape[d] {
				break
			}
			for k := range at {
				at[k] -= strides[k][d] * shape[d]
			}
			index[d] = 0
		}
	}
}

// lines calls visit for each line of shape along axis: its n elements are start, start+step, ...
func lines(shape Shape, axis int, visit func(start, step, n int)) {
	step := shape[axis+1:].Elems()
	n := shape[axis]
	for outer := range shape[:axis].Elems() {
		for inner := range step {
			visit(outer*step*n+inner, step, n)
		}
	}
}

// same is the Infer of an op without attributes whose n float operands and result have the same
// spec.
func same(op string, n int) func(any, []Spec) ([]Spec, error) {
	return func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs(op, attrs); err != nil {
			return nil, err
		}
		return sameSpecs(op, in, n)
	}
}

// sameSpecs checks that n float operands have the same spec, and returns it.
func sameSpecs(op string, in []Spec, n int) ([]Spec, error) {
	if err := floats(op, in, n); err != nil {
		return nil, err
	}
	for _, s := range in {
		if !s.Equal(in[0]) {
			return nil, shapeError(op, "operands must have one shape, not %v", in)
		}
	}
	return []Spec{in[0]}, nil
}
