package layers

import (
	"fmt"
	"slices"
	"strconv"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Concat adds the nodes of xs one after another along an axis. Their types, ranks and other dimensions
// are equal. A name may be empty.
func (n *Net) Concat(xs gorgonia.Nodes, name string, axis int) *gorgonia.Node {
	layer, ok := n.list("concat", name, xs)
	if !ok {
		return nil
	}
	if axis, ok = n.axisOf(layer, xs[0], axis); !ok {
		return nil
	}
	return n.operate("concat", name, kernels.Concat, kernels.ConcatAttrs{Axis: axis}, xs...)
}

// Stack adds the nodes of xs, which have one shape and type, along a new axis.
// two of [B, F], axis 1 → [B, 2, F]. An axis below 0 counts from the end of the result. A name may be
// empty.
func (n *Net) Stack(xs gorgonia.Nodes, name string, axis int) *gorgonia.Node {
	layer, ok := n.list("stack", name, xs)
	if !ok {
		return nil
	}
	s := xs[0].Shape()
	if axis < 0 {
		axis += len(s) + 1
	}
	for _, x := range xs {
		if axis < 0 || axis > len(s) || !slices.Equal(x.Shape(), s) {
			n.fail(fmt.Errorf("%s: inputs need one shape, and 0 ≤ axis ≤ %d: axis is %d, shapes are %s and %s: %w",
				layer, len(s), axis, shapeString(s), shapeString(x.Shape()), ErrShape))
			return nil
		}
	}
	rows := make(gorgonia.Nodes, len(xs))
	for k, x := range xs {
		rows[k] = n.view("stack", part(name, strconv.Itoa(k)), x, slices.Insert(slices.Clone(s), axis, 1))
	}
	return n.operate("stack", name, kernels.Concat, kernels.ConcatAttrs{Axis: axis}, rows...)
}

// list reports whether xs can be the operands of an operation, and describes it.
func (n *Net) list(what, name string, xs gorgonia.Nodes) (layer string, ok bool) {
	if len(xs) == 0 {
		layer = operation(what, name, nil)
		if n.usable() {
			n.fail(fmt.Errorf("%s: there are no inputs: %w", layer, ErrNode))
		}
		return layer, false
	}
	layer = operation(what, name, xs[0])
	if !n.operands(layer, xs...) {
		return layer, false
	}
	for _, x := range xs {
		if x.Dtype() != xs[0].Dtype() {
			n.fail(fmt.Errorf("%s: %q is of type %s, %q of type %s: use Cast: %w", layer, xs[0].Name(), typeString(xs[0].Dtype()),
				x.Name(), typeString(x.Dtype()), ErrShape))
			return layer, false
		}
	}
	return layer, true
}
