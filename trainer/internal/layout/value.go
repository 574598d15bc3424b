package layout

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
)

// IsEmpty reports whether v has no elements: it is nil, or a tensor that UnbindAll of a graph has emptied.
func IsEmpty(v gorgonia.Value) bool {
	d, ok := v.(*tensor.Dense)
	return v == nil || ok && (d == nil || d.MemSize() == 0)
}

// Load writes the elements of v to dst in row-major order. spec is the type and shape that v must have. v may be a view
// of any strides, also one with gaps. Load allocates nothing.
func Load(dst []byte, v gorgonia.Value, spec kernels.Spec) error {
	if d, ok := v.(*tensor.Dense); ok {
		return loadTensor(dst, d, spec)
	}
	var n int         // elements that dst has room for
	var t arena.DType // of v
	switch x := v.(type) {
	case *gorgonia.F32:
		n, t = put(dst, float32(*x)), arena.Float32
	case *gorgonia.F64:
		n, t = put(dst, float64(*x)), arena.Float64
	case *gorgonia.I:
		n, t = put(dst, int(*x)), arena.Int64
	case *gorgonia.I64:
		n, t = put(dst, int64(*x)), arena.Int64
	case *gorgonia.I32:
		n, t = put(dst, int32(*x)), arena.Int32
	case *gorgonia.U8:
		n, t = put(dst, uint8(*x)), arena.Uint8
	default:
		return fmt.Errorf("value of type %T: %w", v, kernels.ErrUnsupported)
	}
	if n != 1 || t != spec.Type {
		return fmt.Errorf("value is a scalar %v, not %v: %w", t, spec, kernels.ErrShape)
	}
	return nil
}

// put writes x to dst if dst has room for exactly one element. It returns the number of elements that dst has room for.
func put[T dataloader.Element](dst []byte, x T) int {
	s := dataloader.View[T](dst)
	if len(s) == 1 {
		s[0] = x
	}
	return len(s)
}

// loadTensor is Load for a tensor.
func loadTensor(dst []byte, d *tensor.Dense, spec kernels.Spec) error {
	if IsEmpty(d) {
		return fmt.Errorf("value is a tensor without elements: UnbindAll of a graph has emptied it: "+
			"give the input a new one: %w", ErrData)
	}
	// Gorgonia lends the memory of a tensor as a slice of its type. A view's slice reaches from its first element to its last.
	fits := false
	if d.Shape().TotalSize() == spec.Shape.Elems() && !d.IsMasked() {
		switch d.Dtype() {
		case tensor.Float32:
			fits = spec.Type == arena.Float32 && gather(dataloader.View[float32](dst), d.Float32s(), d)
		case tensor.Float64:
			fits = spec.Type == arena.Float64 && gather(dataloader.View[float64](dst), d.Float64s(), d)
		case tensor.Int:
			fits = spec.Type == arena.Int64 && gather(dataloader.View[int](dst), d.Ints(), d)
		case tensor.Int64:
			fits = spec.Type == arena.Int64 && gather(dataloader.View[int64](dst), d.Int64s(), d)
		case tensor.Int32:
			fits = spec.Type == arena.Int32 && gather(dataloader.View[int32](dst), d.Int32s(), d)
		case tensor.Uint8:
			fits = spec.Type == arena.Uint8 && gather(dst, d.Uint8s(), d)
		}
	}
	if !fits {
		return fmt.Errorf("value is a tensor of %v %v, not %v: %w", d.Dtype(), d.Shape(), spec, kernels.ErrShape)
	}
	return nil
}

// gather copies the elements of d to dst in row-major order. src is the memory of d. It returns false if d does not
// describe len(dst) elements within src.
//
// Element (i, j) of a matrix lies at i·strides[0] + j·strides[1]. For a transposed 2×3 matrix:
//
//	src 1 2 3 4 5 6, shape 3×2, strides 1 3 → dst 1 4 2 5 3 6
func gather[T any](dst, src []T, d *tensor.Dense) bool {
	shape, strides := d.Shape(), d.Strides()
	if Contiguous(d) {
		return copy(dst, src) == len(dst)
	}
	if len(shape) != len(strides) || slices.ContainsFunc(shape, func(n int) bool { return n < 1 }) {
		return false
	}
	// Invariant: with strides ≥ 0, no element lies after the last one, so that one check covers all.
	last := 0
	for i, n := range shape {
		last += (n - 1) * strides[i]
	}
	if last < 0 || last >= len(src) || slices.ContainsFunc(strides, func(s int) bool { return s < 0 }) {
		return false
	}
	return copyStrided(dst, src, shape, strides) == len(dst)
}

// copyStrided copies a view of src to dst row by row. It returns the number of elements. It recurs over the dimensions,
// outermost first: src starts at the first element of what is left.
func copyStrided[T any](dst, src []T, shape, strides []int) int {
	switch len(shape) {
	case 0:
		dst[0] = src[0]
		return 1
	case 1:
		for i := range shape[0] {
			dst[i] = src[i*strides[0]]
		}
		return shape[0]
	}
	n := 0
	for i := range shape[0] {
		n += copyStrided(dst[n:], src[i*strides[0]:], shape[1:], strides[1:])
	}
	return n
}

// Contiguous reports whether the elements of d lie in row-major order without gaps. Strides of dimensions of 1 do not
// matter, since they are never taken.
func Contiguous(d *tensor.Dense) bool {
	shape, strides := d.Shape(), d.Strides()
	if d.Size() == 1 {
		return true
	}
	if len(shape) != len(strides) {
		return false
	}
	n := 1 // stride that dimension i must have
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && strides[i] != n {
			return false
		}
		n *= shape[i]
	}
	return true
}
