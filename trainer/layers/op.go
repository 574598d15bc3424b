package layers

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// base implements the methods that the operations of this package share.
type base struct {
	id        uint64 // unique in its graph; part of the hash, because Gorgonia merges nodes with equal hashes
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

func (b *base) Hashcode() uint32 {
	h := fnv.New32a()
	b.WriteHash(h)
	return h.Sum32()
}

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

// result returns a tensor of d in the type of like.
func result(like gorgonia.Value, d []float64, shape ...int) gorgonia.Value {
	if like.Dtype() == tensor.Float64 {
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(d))
	}
	narrow := make([]float32, len(d))
	for i, v := range d {
		narrow[i] = float32(v)
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(narrow))
}
