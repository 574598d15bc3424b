package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// TopK adds the k largest elements of x along an axis, the largest first, and their indices along it,
// of type int.  x [..., N, ...] → both [..., k, ...], 1 ≤ k ≤ N. x is of floats. The nodes are called
// name and `name index`; a name may be empty.
//
// Of equal elements the first comes first; NaN is larger than all numbers. The gradient of the values
// goes to the elements that they are; the indices have none.
func (n *Net) TopK(x *gorgonia.Node, name string, axis, k int) (values, index *gorgonia.Node) {
	layer := operation("topk", name, x)
	if !n.floats(layer, x) {
		return nil, nil
	}
	axis, ok := n.axisOf(layer, x, axis)
	if !ok {
		return nil, nil
	}
	if size := x.Shape()[axis]; k < 1 || k > size {
		n.fail(fmt.Errorf("%s: k is %d, axis %d of input %s has %d elements: %w", layer, k, axis, shapeString(x.Shape()), size, ErrShape))
		return nil, nil
	}
	attrs := kernels.TopKAttrs{Axis: axis, K: k}
	values = n.operate("topk", name, kernels.TopK, attrs, x)
	return values, n.operateOutput("topk", part(name, "index"), kernels.TopK, attrs, 1, x)
}

// ArgMax adds the index of the largest element of x along an axis, of type int, without that axis.
// x [B, N], axis 1 → [B]. x is of floats. Of equal elements it is the first; NaN is larger than all
// numbers. It has no gradient. A name may be empty.
func (n *Net) ArgMax(x *gorgonia.Node, name string, axis int) *gorgonia.Node {
	layer := operation("argmax", name, x)
	if !n.floats(layer, x) {
		return nil
	}
	axis, ok := n.axisOf(layer, x, axis)
	if !ok {
		return nil
	}
	index := n.operateOutput("argmax", part(name, "index"), kernels.TopK, kernels.TopKAttrs{Axis: axis, K: 1}, 1, x)
	s := x.Shape()
	return n.view("argmax", name, index, append(s[:axis:axis], s[axis+1:]...))
}
