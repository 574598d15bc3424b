package frontend

import (
	"fmt"
	"unsafe"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// The only code of the package that converts between bytes and elements in place. Gorgonia's values
// share the program's memory where they can.

// elementsOf returns the bytes as elements, without a copy. Operands are aligned to arena.Align.
func elementsOf[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// bytesOf returns the memory of elements, without a copy.
func bytesOf[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}

// denseBytes returns the memory of a tensor of floats, without a copy and without an allocation, which
// Data makes.
func denseBytes(d *tensor.Dense) []byte {
	if d.Dtype() == tensor.Float32 {
		return bytesOf(d.Float32s())
	}
	return bytesOf(d.Float64s())
}

// wrap returns a Gorgonia value of the elements at b: a tensor shares the bytes, a scalar is a
// copy.
func (d nodeType) wrap(b []byte) gorgonia.Value {
	switch d.dtype {
	case tensor.Float64:
		return wrap(elementsOf[float64](b), d, gorgonia.NewF64)
	case tensor.Float32:
		return wrap(elementsOf[float32](b), d, gorgonia.NewF32)
	case tensor.Int:
		return wrap(elementsOf[int](b), d, gorgonia.NewI)
	case tensor.Int64:
		return wrap(elementsOf[int64](b), d, gorgonia.NewI64)
	case tensor.Int32:
		return wrap(elementsOf[int32](b), d, gorgonia.NewI32)
	case tensor.Uint8:
		return wrap(b, d, gorgonia.NewU8)
	}
	panic(fmt.Errorf("operands of type %v: %w", d.dtype, kernels.ErrUnsupported))
}

// wrap returns the tensor or scalar of d's type with elements s.
func wrap[T any, S gorgonia.Value](s []T, d nodeType, scalar func(T) S) gorgonia.Value {
	if len(d.shape) == 0 {
		return scalar(s[0])
	}
	return tensor.New(tensor.WithShape(d.shape...), tensor.WithBacking(s))
}

// store copies the elements of v, which need not be contiguous, to dst, whose type t is that of v.
// Bools become 1 and 0 in any type.
func store(dst []byte, t arena.DType, v gorgonia.Value) error {
	// A view or a transposed tensor does not hold its elements in row-major order.
	if d, ok := v.(*tensor.Dense); ok && (d.RequiresIterator() || !d.DataOrder().IsRowMajor() || d.IsView()) {
		v = d.Materialize().(gorgonia.Value)
	}
	var src []byte
	if d, ok := v.(*tensor.Dense); ok && (d.Dtype() == tensor.Float64 || d.Dtype() == tensor.Float32) {
		return storeBytes(dst, t, v, denseBytes(d))
	}
	switch x := v.Data().(type) {
	case []int: // of a tensor
		src = bytesOf(x)
	case []int64:
		src = bytesOf(x)
	case []int32:
		src = bytesOf(x)
	case []uint8:
		src = x
	case []bool:
		return storeBools(dst, t, x)
	case bool: // from here on, of a scalar
		return storeBools(dst, t, []bool{x})
	case float64:
		src = bytesOf([]float64{x})
	case float32:
		src = bytesOf([]float32{x})
	case int:
		src = bytesOf([]int{x})
	case int64:
		src = bytesOf([]int64{x})
	case int32:
		src = bytesOf([]int32{x})
	case uint8:
		src = []byte{x}
	}
	return storeBytes(dst, t, v, src)
}

// storeBytes copies src, the elements of v, to dst.
func storeBytes(dst []byte, t arena.DType, v gorgonia.Value, src []byte) error {
	if have, err := dtypeOf(v.Dtype()); err != nil || have != t || len(src) != len(dst) {
		return fmt.Errorf("result is %v %v, %d bytes, not %d of %v: %w",
			v.Dtype(), v.Shape(), len(src), len(dst), t, kernels.ErrShape)
	}
	copy(dst, src)
	return nil
}

// storeBools writes bools as 1 and 0 of type t.
func storeBools(dst []byte, t arena.DType, bs []bool) error {
	if int64(len(dst)) != int64(len(bs))*t.Size() {
		return fmt.Errorf("result has %d bools for %d bytes of %v: %w", len(bs), len(dst), t, kernels.ErrShape)
	}
	xs := make([]float64, len(bs))
	for i, b := range bs {
		if b {
			xs[i] = 1
		}
	}
	kernels.Store(dst, t, xs)
	return nil
}
