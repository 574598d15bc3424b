package layers

import (
	"fmt"
	"math"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Constant adds a value that is neither fed nor learned, such as a mask. value is a number, a slice of
// numbers or bools, or a tensor; the net copies it. Floats and bools become Net.Type, integers keep
// their type. dims is the shape, which a number fills; without it a slice is a vector, a tensor keeps
// its shape, and a number is a scalar. A name may be empty.
//
// A constant is never merged with another one, however alike they are.
func (n *Net) Constant(value any, name string, dims ...int) *gorgonia.Node {
	layer := operation("constant", name, nil)
	if !n.usable() {
		return nil
	}
	v, dims, err := n.constantValue(value, dims)
	if err != nil {
		n.fail(fmt.Errorf("%s: %w", layer, err))
		return nil
	}
	label := n.nameOf("constant", name)
	op := &constantOp{base{id: n.id(0), name: "constant", signature: []hm.Type{typeOf(len(dims), v.Dtype())}}, v, dims}
	y := gorgonia.NewUniqueNode(gorgonia.In(n.g), gorgonia.WithType(op.Type()), gorgonia.WithOp(op), gorgonia.WithShape(dims...))
	return n.keepOrLabel(layer, name, label, y, nil)
}

// constantValue returns a copy of value, and the shape of the constant: that of the value, or dims if
// value is a number.
func (n *Net) constantValue(value any, dims []int) (gorgonia.Value, []int, error) {
	if d, ok := value.(*tensor.Dense); ok {
		if d == nil {
			return nil, nil, fmt.Errorf("the tensor is nil: %w", ErrNode)
		}
		if len(dims) == 0 {
			dims = d.Shape()
		}
		value = data(d)
	}
	dims = slices.Clone(dims)
	for _, d := range dims {
		if d < 1 {
			return nil, nil, fmt.Errorf("dimensions %s must all be 1 or more: %w", shapeString(dims), ErrShape)
		}
	}
	spec := kernels.Spec{Type: storage[n.Type], Shape: dims}
	if err := spec.Check(); err != nil {
		return nil, nil, err
	}
	var v gorgonia.Value
	var err error
	switch d := value.(type) {
	case float64:
		v, err = n.floatConstant([]float64{d}, nil)
		return v, dims, err
	case float32:
		v, err = n.floatConstant([]float64{float64(d)}, nil)
		return v, dims, err
	case int:
		return gorgonia.NewI(d), dims, nil
	}
	if v, err = n.elementsConstant(value, dims); err != nil {
		return nil, nil, err
	}
	return v, v.Shape(), nil
}

// elementsConstant returns a copy of a slice in the shape dims.
func (n *Net) elementsConstant(value any, dims []int) (gorgonia.Value, error) {
	switch d := value.(type) {
	case []float64:
		return n.floatConstant(slices.Clone(d), orVector(dims, len(d)))
	case []float32:
		return n.floatConstant(widen(d), orVector(dims, len(d)))
	case []bool:
		x := make([]float64, len(d))
		for i, v := range d {
			if v {
				x[i] = 1
			}
		}
		return n.floatConstant(x, orVector(dims, len(d)))
	case []int:
		return intConstant(d, dims, gorgonia.NewI)
	case []int64:
		return intConstant(d, dims, gorgonia.NewI64)
	case []int32:
		return intConstant(d, dims, gorgonia.NewI32)
	case []uint8:
		return intConstant(d, dims, gorgonia.NewU8)
	}
	return nil, fmt.Errorf("value of type %T: use a number, a slice of numbers or bools, or a *tensor.Dense: %w", value, ErrShape)
}

// orVector returns dims, or if it is empty the shape of a vector of count elements.
func orVector(dims []int, count int) []int {
	if len(dims) == 0 {
		return []int{count}
	}
	return dims
}

// floatConstant returns d as a value of type Net.Type.
func (n *Net) floatConstant(d []float64, dims []int) (gorgonia.Value, error) {
	if n.Type != tensor.Float32 && n.Type != tensor.Float64 {
		return nil, fmt.Errorf("Net.Type is %s: use tensor.Float32 or tensor.Float64: %w", typeString(n.Type), ErrShape)
	}
	if err := checkCount(len(d), dims); err != nil {
		return nil, err
	}
	for i, v := range d {
		if n.Type == tensor.Float32 && math.IsInf(float64(float32(v)), 0) && !math.IsInf(v, 0) {
			return nil, fmt.Errorf("element %d is %v, beyond float32: set Net.Type to tensor.Float64: %w", i, v, ErrShape)
		}
	}
	return result(n.Type, d, dims...), nil
}

// intConstant returns a copy of d as a value of its type.
func intConstant[T any, S gorgonia.Value](d []T, dims []int, scalar func(T) S) (gorgonia.Value, error) {
	dims = orVector(dims, len(d))
	if err := checkCount(len(d), dims); err != nil {
		return nil, err
	}
	return newValue(slices.Clone(d), dims, scalar), nil
}

// checkCount returns an error unless count elements fill dims.
func checkCount(count int, dims []int) error {
	if want := kernels.Shape(dims).Elems(); count == 0 || count != want {
		return fmt.Errorf("%d elements do not fit %s: %w", count, shapeString(dims), ErrShape)
	}
	return nil
}

// constantOp is the operation of a constant node.  → value, repeated over dims if it is a scalar
type constantOp struct {
	base
	value gorgonia.Value
	dims  []int
}

// Constant returns the value: a scalar stands for all elements of the node. The compiler reads it and
// does not change it.
func (c *constantOp) Constant() gorgonia.Value { return c.value }

// Type returns the type of the node, which has no operands.
func (c *constantOp) Type() hm.Type { return c.signature[0] }

// InferShape returns the shape of the node.
func (c *constantOp) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	return slices.Clone(c.dims), nil
}

// Do returns a copy of the elements: Gorgonia's machines compute in place.
func (c *constantOp) Do(...gorgonia.Value) (gorgonia.Value, error) {
	if len(c.dims) == 0 || len(c.value.Shape()) > 0 {
		return gorgonia.CloneValue(c.value)
	}
	count := kernels.Shape(c.dims).Elems()
	switch x := c.value.Data().(type) {
	case float64:
		return newValue(slices.Repeat([]float64{x}, count), c.dims, gorgonia.NewF64), nil
	case float32:
		return newValue(slices.Repeat([]float32{x}, count), c.dims, gorgonia.NewF32), nil
	}
	return newValue(slices.Repeat([]int{c.value.Data().(int)}, count), c.dims, gorgonia.NewI), nil
}

// DiffWRT reports that there are no operands.
func (*constantOp) DiffWRT(int) []bool { return nil }

// SymDiff adds nothing: there are no operands.
func (*constantOp) SymDiff(gorgonia.Nodes, *gorgonia.Node, *gorgonia.Node) (gorgonia.Nodes, error) {
	return nil, nil
}
