package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Comparisons of floats give 1 where they hold and 0 elsewhere, in the operands' type. Shapes broadcast
// as in NumPy. Their gradient is 0. If an operand is NaN, NotEqual gives 1 and the others 0. Integers
// are compared after Cast. A name may be empty.

// Less adds a < b.
func (n *Net) Less(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.compare("less", kernels.Less, a, b, name)
}

// LessEqual adds a ≤ b.
func (n *Net) LessEqual(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.compare("less or equal", kernels.LessEqual, a, b, name)
}

// Greater adds a > b.
func (n *Net) Greater(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.compare("greater", kernels.Greater, a, b, name)
}

// GreaterEqual adds a ≥ b.
func (n *Net) GreaterEqual(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.compare("greater or equal", kernels.GreaterEqual, a, b, name)
}

// Equal adds a = b.
func (n *Net) Equal(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.compare("equal", kernels.Equal, a, b, name)
}

// NotEqual adds a ≠ b.
func (n *Net) NotEqual(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.compare("not equal", kernels.NotEqual, a, b, name)
}

// compare adds a comparison.
func (n *Net) compare(what string, op *kernels.Op, a, b *gorgonia.Node, name string) *gorgonia.Node {
	if !n.floats(operation(what, name, a), a, b) {
		return nil
	}
	return n.operate(what, name, op, nil, a, b)
}

// Where adds a where cond is not 0, and b elsewhere. cond is of floats, such as the result of a
// comparison; a and b have one type, floats or integers. Shapes broadcast as in NumPy. A name may be
// empty.
//
// An element that is not chosen has no effect and no gradient, even if it is NaN. cond has no gradient.
// The gradient 0 goes on to the operations that made that element, and where their own slope is NaN or
// infinite there, as that of Sqrt or Log at 0, the product is NaN, as in other frameworks. Choose their
// operand first, too:
//
//	safe := net.Where(positive, x, one, "")
//	y := net.Where(positive, net.Log(safe, ""), zero, "")
func (n *Net) Where(cond, a, b *gorgonia.Node, name string) *gorgonia.Node {
	layer := operation("where", name, cond)
	if !n.operands(layer, cond, a, b) || !n.floats(layer, cond) {
		return nil
	}
	if a.Dtype() != b.Dtype() {
		n.fail(fmt.Errorf("%s: %q is of type %s, %q of type %s: use Cast: %w", layer, a.Name(), typeString(a.Dtype()), b.Name(), typeString(b.Dtype()), ErrShape))
		return nil
	}
	return n.operate("where", name, kernels.Where, nil, cond, a, b)
}
