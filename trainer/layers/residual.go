package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// Residual adds act(f(x) + x).  x [B, ...] → the shape of f(x). f adds the layers of the block to
// the same net. act may be nil. Source: He et al., 2016, section 3.2, option B.
//
// If f changes the channels or the size of images [B, C, H, W], x is projected to the new shape: by
// a strided 1×1 convolution called name/skip and batch normalization called name/skip/norm.
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

// project returns x, or its projection to the shape of y.
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
		n.fail(fmt.Errorf("%s: no strided 1×1 convolution maps input %s to %s: %w", layer, shapeString(from), shapeString(to), ErrShape))
		return nil
	}
	c.Out = to[1]
	return n.BatchNorm(n.Conv(x, name, c, nil), name+"/norm", nil)
}

// strideTo returns the smallest stride that reduces a dimension of size from to size to, or 0 if
// there is none.
func strideTo(from, to int) int {
	for s := 1; s <= from; s++ {
		if (from-1)/s+1 == to {
			return s
		}
	}
	return 0
}
