package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Softmax adds eˣ/Σeˣ along an axis, the last one if none is given: the results add up to 1. A
// classifier needs none: its loss contains it.
func (n *Net) Softmax(x *gorgonia.Node, name string, axis ...int) *gorgonia.Node {
	return n.softmax("softmax", kernels.Softmax, x, name, axis)
}

// LogSoftmax adds the logarithm of [Net.Softmax], which is finite where the softmax itself is 0.
func (n *Net) LogSoftmax(x *gorgonia.Node, name string, axis ...int) *gorgonia.Node {
	return n.softmax("log softmax", kernels.LogSoftmax, x, name, axis)
}

// softmax adds an operation along an axis.
func (n *Net) softmax(what string, op *kernels.Op, x *gorgonia.Node, name string, axis []int) *gorgonia.Node {
	layer := operation(what, name, x)
	if !n.floats(layer, x) {
		return nil
	}
	if len(axis) > 1 {
		n.fail(fmt.Errorf("%s: axes %v: give one, or Reshape x: %w", layer, axis, ErrShape))
		return nil
	}
	along, ok := n.axisOf(layer, x, append(axis, -1)[0])
	if !ok {
		return nil
	}
	return n.operate(what, name, op, kernels.SoftmaxAttrs{Axis: along}, x)
}
