package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Arithmetic of two nodes. Their shapes broadcast as in NumPy: aligned at the last dimension, two
// dimensions must be equal, or one of them 1 or missing.
//
//	a (4, 3, 5), b (3, 1)  →  (4, 3, 5)

// Add adds a + b.
func (n *Net) Add(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("add", kernels.Add, a, b, name)
}

// Sub adds a - b.
func (n *Net) Sub(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("sub", kernels.Sub, a, b, name)
}

// Mul adds the product a·b of elements. [Net.MatMul] multiplies matrices.
func (n *Net) Mul(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("mul", kernels.Mul, a, b, name)
}

// Div adds a/b.
func (n *Net) Div(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("div", kernels.Div, a, b, name)
}

// Pow adds a to the power of b. The gradient of b needs a > 0. [Net.Power] has one exponent for all
// elements.
func (n *Net) Pow(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("pow", kernels.Pow, a, b, name)
}

// Maximum adds the larger of a and b: NaN where either is NaN. Equal elements share the gradient.
func (n *Net) Maximum(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("maximum", kernels.Maximum, a, b, name)
}

// Minimum adds the smaller of a and b: NaN where either is NaN. Equal elements share the gradient.
func (n *Net) Minimum(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.binary("minimum", kernels.Minimum, a, b, name)
}

// binary adds an operation of two operands that broadcast.
func (n *Net) binary(what string, op *kernels.Op, a, b *gorgonia.Node, name string) *gorgonia.Node {
	layer := operation(what, name, a)
	if !n.floats(layer, a, b) {
		return nil
	}
	if _, err := broadcast(a.Shape(), b.Shape()); err != nil {
		n.fail(fmt.Errorf("%s: %q and %q: %w", layer, a.Name(), b.Name(), err))
		return nil
	}
	return n.operate(what, name, op, nil, a, b)
}

// broadcast returns the shape that a and b broadcast to.
func broadcast(a, b []int) (kernels.Shape, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append(kernels.Shape{}, a...)
	for i, d := range b {
		o := &out[len(a)-len(b)+i]
		switch {
		case *o == 1:
			*o = d
		case d != 1 && d != *o:
			return nil, fmt.Errorf("%s and %s do not broadcast: aligned at the last dimension, dimensions must be equal or 1: %w",
				shapeString(a), shapeString(b), ErrShape)
		}
	}
	return out, nil
}
