package layers

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// CumSum adds the running sums of x along an axis: x[0], x[0]+x[1], … x is of floats. A name may be
// empty.
func (n *Net) CumSum(x *gorgonia.Node, name string, axis int) *gorgonia.Node {
	layer := operation("cumsum", name, x)
	if !n.floats(layer, x) {
		return nil
	}
	axis, ok := n.axisOf(layer, x, axis)
	if !ok {
		return nil
	}
	return n.operate("cumsum", name, kernels.CumSum, kernels.CumSumAttrs{Axis: axis}, x)
}
