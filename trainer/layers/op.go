package layers

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// base implements the methods that the operations of this package share.
//
// Gorgonia makes one node of two that have equal hashes if their operations have equal hashes, too.
// The hash of an operation here is its number.
//
// Invariant: no two operations of this package in one graph have the same number.
type base struct {
	id        uint32 // the operation's number, from 1
	name      string
	signature []hm.Type // types of the operands, then of the result
}

func (b *base) Arity() int            { return len(b.signature) - 1 }
func (b *base) Type() hm.Type         { return hm.NewFnType(b.signature...) }
func (*base) ReturnsPtr() bool        { return false }
func (*base) CallsExtern() bool       { return false }
func (*base) OverwritesInput() int    { return -1 }
func (b *base) WriteHash(h hash.Hash) { fmt.Fprintf(h, "evenkeel/layers.%s #%d", b.name, b.id) }
func (b *base) String() string        { return b.name }

// Hashcode returns the number of the operation.
func (b *base) Hashcode() uint32 { return b.id }

// lastID returns the last number that belongs to the operation: its own, or that of the gradient of
// its last operand.
func (b *base) lastID() uint32 { return b.id + uint32(b.Arity()) }

// InferShape returns the shape of the first operand.
func (b *base) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, ok := in[0].(tensor.Shape)
	if !ok {
		return nil, fmt.Errorf("%v: operand is %T, not a shape: %w", b, in[0], ErrShape)
	}
	return s.Clone(), nil
}

// mode selects training or evaluation, for operations that differ in them.
type mode struct{ evaluate bool }

// SetTraining sets the mode. Gorgonia's machines call it when they are created.
func (m *mode) SetTraining(training bool) error {
	m.evaluate = !training
	return nil
}

// check returns an error unless in has the right number of operands.
func (b *base) check(in []gorgonia.Value) error {
	if len(in) != b.Arity() {
		return fmt.Errorf("%v: %d operands, needs %d: %w", b, len(in), b.Arity(), ErrShape)
	}
	return nil
}

// data returns the elements of v, row-major. It copies only a view with gaps or in another order.
func data(v gorgonia.Value) any {
	if t, ok := v.(*tensor.Dense); ok && (t.RequiresIterator() || t.DataOrder().IsColMajor()) {
		v = t.Clone().(*tensor.Dense).Materialize()
	}
	return v.Data()
}

// floats returns the elements of v, a float value, in float64.
func floats(v gorgonia.Value) ([]float64, error) {
	switch d := data(v).(type) {
	case []float32:
		return widen(d), nil
	case []float64:
		return d, nil
	case float32:
		return []float64{float64(d)}, nil
	case float64:
		return []float64{d}, nil
	}
	return nil, fmt.Errorf("operand of type %s is not a float: %w", typeString(v.Dtype()), ErrShape)
}

// ints returns the elements of v, a value of integers.
func ints(v gorgonia.Value) ([]int, error) {
	switch d := data(v).(type) {
	case []int:
		return d, nil
	case []int64:
		return convert(d), nil
	case []int32:
		return convert(d), nil
	case []uint8:
		return convert(d), nil
	case int:
		return []int{d}, nil
	case int64:
		return []int{int(d)}, nil
	case int32:
		return []int{int(d)}, nil
	case uint8:
		return []int{int(d)}, nil
	}
	return nil, fmt.Errorf("operand of type %s is not an integer: %w", typeString(v.Dtype()), ErrShape)
}

// widen converts to float64.
func widen(d []float32) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = float64(v)
	}
	return out
}

// convert converts to int.
func convert[T int64 | int32 | uint8](d []T) []int {
	out := make([]int, len(d))
	for i, v := range d {
		out[i] = int(v)
	}
	return out
}

// result returns a value with elements d, of type t: a scalar if shape is empty, else a tensor.
func result(t tensor.Dtype, d []float64, shape ...int) gorgonia.Value {
	switch t {
	case tensor.Float64:
		return newValue(d, shape, gorgonia.NewF64)
	case tensor.Float32:
		return newValue(narrow[float32](d), shape, gorgonia.NewF32)
	case tensor.Int64:
		return newValue(narrow[int64](d), shape, gorgonia.NewI64)
	case tensor.Int32:
		return newValue(narrow[int32](d), shape, gorgonia.NewI32)
	case tensor.Uint8:
		return newValue(narrow[uint8](d), shape, gorgonia.NewU8)
	}
	whole := make([]int, len(d))
	for i, v := range d {
		if whole[i] = math.MaxInt; v < math.MaxInt { // as a float64 it is one more, which int does not hold
			whole[i] = int(v)
		}
	}
	return newValue(whole, shape, gorgonia.NewI)
}

// newValue returns a value over d: a scalar if shape is empty, else a tensor.
func newValue[T any, S gorgonia.Value](d []T, shape []int, scalar func(T) S) gorgonia.Value {
	if len(shape) == 0 {
		return scalar(d[0])
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(d))
}

// narrow converts from float64.
func narrow[T float32 | int64 | int32 | uint8](d []float64) []T {
	out := make([]T, len(d))
	for i, v := range d {
		out[i] = T(v)
	}
	return out
}
