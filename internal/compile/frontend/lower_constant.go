package frontend

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Constants, and scalars that are computed from constants and shapes alone.
//
//	constantScalar              →  fill
//	constantTensor              →  fill, where all elements are equal, or a home with its data
//	sizeOp                      →  fill
//	+, -, ⊙, ÷ of such scalars  →  fill with the result
//
// Patterns need their values: a mean is a sum divided by a constant.

// scalarConst is a scalar that may be constant.
type scalarConst struct {
	x  float64
	ok bool // it is constant
}

// evalScalar returns the value of a scalar that does not depend on data: a constant, a size, or
// arithmetic on these. Arithmetic is rounded to the type of n after each operation, as a device
// does it.
func (r *reader) evalScalar(n *gorgonia.Node) (float64, bool) {
	c, done := r.scalars[n]
	if !done {
		c = r.evaluate(n)
		r.scalars[n] = c
	}
	return c.x, c.ok
}

// evaluate computes the result of evalScalar, which keeps it. It calls evalScalar for operands; the
// recursion is as deep as the arithmetic on constants.
func (r *reader) evaluate(n *gorgonia.Node) (c scalarConst) {
	if n.Op() == nil || n.Type() == nil || len(n.Shape()) > 0 {
		return c
	}
	t, err := typeOf(n)
	if err != nil {
		return c
	}
	if v := valueOf(n.Op()); v != nil {
		return scalarOf(v)
	}
	switch op := opKey(n.Op()); op {
	case "gorgonia.sizeOp":
		// A scalar has size 1 along any axis. A tensor without that axis is an error of lowerSize.
		axis, err := fields{n.Op()}.Int("axis")
		shape := children(n)[0].Shape()
		if err != nil || axis >= len(shape) && len(shape) > 0 {
			return c
		}
		if c = (scalarConst{1, true}); len(shape) > 0 {
			c.x = float64(shape[axis])
		}
	case "gorgonia.elemBinOp:+", "gorgonia.elemBinOp:-", "gorgonia.elemBinOp:⊙", "gorgonia.elemBinOp:÷":
		in := children(n)
		a, okA := r.evalScalar(in[0])
		b, okB := r.evalScalar(in[1])
		if !okA || !okB || !t.Float() {
			return c
		}
		c = scalarConst{arithmetic(op, a, b), true}
	default:
		return c
	}
	c.x = kernels.Round(t, c.x)
	return c
}

// arithmetic returns a op b, before rounding.
func arithmetic(op string, a, b float64) float64 {
	switch op {
	case "gorgonia.elemBinOp:+":
		return a + b
	case "gorgonia.elemBinOp:-":
		return a - b
	case "gorgonia.elemBinOp:⊙":
		return a * b
	}
	return a / b
}

// scalarOf returns the element of a scalar; it is not constant where a float64 cannot hold it.
func scalarOf(v gorgonia.Value) scalarConst {
	switch x := v.Data().(type) {
	case float64:
		return scalarConst{x, true}
	case float32:
		return scalarConst{float64(x), true}
	case int:
		return scalarConst{float64(x), int(float64(x)) == x}
	case int64:
		return scalarConst{float64(x), int64(float64(x)) == x}
	case int32:
		return scalarConst{float64(x), true}
	case uint8:
		return scalarConst{float64(x), true}
	}
	return scalarConst{}
}

// constantRule returns the rule of a scalar that is the constant x.
func (r *reader) constantRule(n *gorgonia.Node, x float64) (*rule, error) {
	t, err := typeOf(n)
	if err != nil {
		return nil, err
	}
	return &rule{build: func([]kernels.Value) (kernels.Value, error) { return r.fill(t, shapeOf(n), x), nil }}, nil
}

// lowerConstant lowers a constant tensor: a home with its data, or a fill, which needs no home,
// where all elements are equal. A scalar stands for all elements of the node.
func lowerConstant(r *reader, n *gorgonia.Node) (*rule, error) {
	t, err := typeOf(n)
	if err != nil {
		return nil, err
	}
	v, shape := valueOf(n.Op()), shapeOf(n)
	given := kernels.Spec{Type: t, Shape: append(kernels.Shape{}, v.Shape()...)}
	data := make([]byte, given.Bytes())
	if err := store(data, t, v); err != nil {
		return nil, err
	}
	xs := make([]float64, given.Shape.Elems())
	kernels.Load(xs, t, data)
	// Equal bits: 0 and -0 differ. Integers of 64 bits are excluded, as float64 does not hold them all.
	uniform := len(xs) > 0 && t != arena.Int64 && !slices.ContainsFunc(xs, func(x float64) bool {
		return math.Float64bits(x) != math.Float64bits(xs[0])
	})
	return &rule{build: func([]kernels.Value) (kernels.Value, error) {
		if uniform {
			return r.fill(t, shape, xs[0]), nil
		}
		c, err := r.constant(n, given, data)
		if err != nil || given.Shape.Equal(shape) {
			return c, err
		}
		return r.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: shape}, c), nil
	}}, nil
}

// lowerSize is called for sizes that evalScalar does not know: those along an axis that the operand
// lacks.
func lowerSize(_ *reader, n *gorgonia.Node) (*rule, error) {
	return nil, fmt.Errorf("the size of %q along an axis that it does not have: %w",
		children(n)[0].Name(), kernels.ErrShape)
}
