package layers

import (
	"fmt"
	"hash"
	"hash/fnv"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// base is what the operations of this package share. The compiler reads them by type name and fields
// (see package kernels): renaming either is a change to both.
type base struct {
	id uint64 // unique in its graph, part of the hash
}

func (base) ReturnsPtr() bool     { return false }
func (base) CallsExtern() bool    { return false }
func (base) OverwritesInput() int { return -1 }

func (b base) write(h hash.Hash, name string) { fmt.Fprintf(h, "evenkeel/layers.%s #%d", name, b.id) }

func hashcode(op gorgonia.Op) uint32 {
	h := fnv.New32a()
	op.WriteHash(h)
	return h.Sum32()
}

// Type variables of signatures. Gorgonia's inference takes 'b' for itself.
var (
	floatVar = hm.TypeVariable('a')
	labelVar = hm.TypeVariable('l')
	matrix   = gorgonia.TensorType{Dims: 2, Of: floatVar}
	vector   = gorgonia.TensorType{Dims: 1, Of: floatVar}
	labels   = gorgonia.TensorType{Dims: 1, Of: labelVar}
)

// sameShape is the shape of the first input.
func sameShape(in []gorgonia.DimSizer) (tensor.Shape, error) {
	s, ok := in[0].(tensor.Shape)
	if !ok {
		return nil, fmt.Errorf("operand is %T, not a shape", in[0])
	}
	return s.Clone(), nil
}

// rowShape is [B] for logits [B, C].
func rowShape(in []gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := sameShape(in)
	if err != nil {
		return nil, err
	}
	if s.Dims() != 2 {
		return nil, fmt.Errorf("logits %s need 2 dimensions: %w", shapeString(s), ErrShape)
	}
	return tensor.Shape{s[0]}, nil
}

// data returns a value's elements, row-major. It copies only what is a view with gaps or another order.
func data(v gorgonia.Value) any {
	if t, ok := v.(*tensor.Dense); ok && (t.RequiresIterator() || t.DataOrder().IsColMajor()) {
		v = t.Clone().(*tensor.Dense).Materialize()
	}
	return v.Data()
}

// floats returns a float value's elements in float64.
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
	return nil, fmt.Errorf("operand of type %v is no float", v.Dtype())
}

// ints returns class indices.
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
	return nil, fmt.Errorf("labels of type %v are no class indices", v.Dtype())
}

func widen(d []float32) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = float64(v)
	}
	return out
}

func convert[T int64 | int32 | uint8](d []T) []int {
	out := make([]int, len(d))
	for i, v := range d {
		out[i] = int(v)
	}
	return out
}

// result makes a tensor of the type of like.
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

// rows reads logits [B, C] and checks that the other operands have the elements that go with them.
func rows(op fmt.Stringer, in []gorgonia.Value, arity int) (x []float64, b, c int, err error) {
	if len(in) != arity {
		return nil, 0, 0, fmt.Errorf("%v: %d operands, needs %d", op, len(in), arity)
	}
	s := in[0].Shape()
	if s.Dims() != 2 {
		return nil, 0, 0, fmt.Errorf("%v: logits %s need 2 dimensions: %w", op, shapeString(s), ErrShape)
	}
	x, err = floats(in[0])
	if err != nil {
		return nil, 0, 0, fmt.Errorf("%v: %w", op, err)
	}
	for _, v := range in[1:] {
		if t := v.Shape(); !slices.Equal(t, s) && !(t.Dims() <= 1 && t.TotalSize() == s[0]) {
			return nil, 0, 0, fmt.Errorf("%v: operand %s does not go with logits %s: %w", op, shapeString(t), shapeString(s), ErrShape)
		}
	}
	return x, s[0], s[1], nil
}
