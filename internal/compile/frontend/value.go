package frontend

import (
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ValueOver returns a value of n's type with the elements at b: a tensor shares the bytes, a scalar
// is a copy.
func ValueOver(n *gorgonia.Node, b []byte) gorgonia.Value { return Unpooled(nodeTypeOf(n).wrap(b)) }

// Unpooled returns a copy of the tensor v that shares its elements but not its header and shape.
// Gorgonia's constructors reuse headers that UnbindAll has returned to a pool, though others may
// still refer to them. A scalar is returned as it is.
func Unpooled(v gorgonia.Value) gorgonia.Value {
	d, ok := v.(*tensor.Dense)
	if !ok {
		return v
	}
	own := *d
	own.AP = tensor.MakeAP(slices.Clone(d.Shape()), slices.Clone(d.Strides()), d.DataOrder(), tensor.NotTriangle)
	return &own
}

// CloneShapes gives every node of g a copy of its shape. A node that was made with a value shares
// the value's shape, and so do nodes that are computed from it: Gorgonia's UnbindAll, which sets
// that shape to zeros, would change the nodes too.
func CloneShapes(g *gorgonia.ExprGraph) {
	for _, n := range g.AllNodes() {
		if s := n.Shape(); n.Type() != nil && len(s) > 0 {
			gorgonia.WithShape(s...)(n)
		}
	}
}

// Computed reports whether a program makes the value of n: n is neither an input nor a constant of
// Gorgonia, whose nodes hold their values. A constant of package layers is computed.
func Computed(n *gorgonia.Node) bool { return n.Op() != nil && !isGorgoniaConstant(n.Op()) }
