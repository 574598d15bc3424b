package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// Residual adds act(f(x) + x).  x [B, ...] → the shape of f(x). Where f changes channels or size of images [B, C, H, W], x goes through
// a projection instead: a convolution of 1×1 with the stride that leads there, called name/skip, and batch normalization,
// name/skip/norm.  act may be nil.  Source: He et al., 2016, section 3.2, option B.
func (n *Net) Residual(x *gorgonia.Node, name string, f func(x *gorgonia.Node) *gorgonia.Node, act Activation) *gorgonia.Node {
	layer := fmt.Sprintf("residual %q", name)
	if !n.layer(layer, name, x) {
		return nil
	}
	if f == nil {
		n.fail(fmt.Errorf("%s: the function is nil: %w", layer, ErrNode))
		return nil
	}
	y := f(x)
	if n.err == nil && y == nil {
		n.fail(fmt.Errorf("%s: its function returned no node: %w", layer, ErrNode))
	}
	if !n.ready(layer, y) {
		return nil
	}
	skip := n.project(layer, x, name+"/skip", y)
	if n.err != nil {
		return nil
	}
	sum, err := gorgonia.Add(y, skip)
	return n.activated(n.keep(layer, name+"/out", sum, err), name, act)
}

// project returns x in the shape of y.
func (n *Net) project(layer string, x *gorgonia.Node, name string, y *gorgonia.Node) *gorgonia.Node {
	from, to := x.Shape(), y.Shape()
	if slices.Equal(from, to) {
		return x
	}
	c := Conv2D{Kernel: Square(1), NoBias: true}
	fits := len(from) == 4 && len(to) == 4 && from[0] == to[0]
	for i := range c.Stride {
		if fits {
			c.Stride[i] = strideTo(from[2+i], to[2+i])
			fits = c.Stride[i] > 0
		}
	}
	if !fits {
		n.fail(fmt.Errorf("%s: no convolution of 1×1 brings input %s to %s: %w", layer, shapeString(from), shapeString(to), ErrShape))
		return nil
	}
	c.Out = to[1]
	return n.BatchNorm(n.Conv(x, name, c, nil), name+"/norm", nil)
}

// strideTo returns the least stride that takes a dimension of size from to one of size to, 0 where there is none.
func strideTo(from, to int) int {
	for s := 1; s <= from; s++ {
		if (from-1)/s+1 == to {
			return s
		}
	}
	return 0
}
