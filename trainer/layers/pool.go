package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Pool describes the windows of a pooling layer. Sizes are height and width; [Square] sets both.
type Pool struct {
	Kernel [2]int // size of a window
	Stride [2]int // distance between windows; both zero: Kernel, so that windows touch
	Pad    [2]int // rows and columns added on each side of the image; less than Kernel
}

// Square returns n, n: equal height and width.
func Square(n int) [2]int { return [2]int{n, n} }

// MaxPool adds the largest element of each window.
//
//	x [B, C, H, W] → [B, C, OH, OW]
//	OH = (H + 2·Pad − Kernel)/Stride + 1, and OW alike
//
// Rows and columns that do not fill a window are ignored, and so is padding.
func (n *Net) MaxPool(x *gorgonia.Node, name string, p Pool) *gorgonia.Node {
	return n.pool("max pool", kernels.MaxPool, x, name, p)
}

// AvgPool adds the mean of each window, without the padding.  Shapes are those of MaxPool.
func (n *Net) AvgPool(x *gorgonia.Node, name string, p Pool) *gorgonia.Node {
	return n.pool("average pool", kernels.AvgPool, x, name, p)
}

// pool adds a pooling layer.
func (n *Net) pool(what string, op *kernels.Op, x *gorgonia.Node, name string, p Pool) *gorgonia.Node {
	layer := fmt.Sprintf("%s %q", what, name)
	if !n.image(layer, name, x) {
		return nil
	}
	if p.Stride == [2]int{} {
		p.Stride = p.Kernel
	}
	return n.apply(layer, name, op, kernels.PoolAttrs{Kernel: p.Kernel, Stride: p.Stride, Pad: p.Pad, PadEnd: p.Pad}, x)
}

// GlobalAvgPool adds the mean of each channel of each image.  x [B, C, H, W] → [B, C].
func (n *Net) GlobalAvgPool(x *gorgonia.Node, name string) *gorgonia.Node {
	layer := fmt.Sprintf("global average pool %q", name)
	if !n.image(layer, name, x) {
		return nil
	}
	return n.apply(layer, name, kernels.Mean, kernels.ReduceAttrs{Axes: []int{2, 3}}, x)
}

// image reports whether x [B, C, H, W] can be the input of a layer called name, and records an
// error if not.
func (n *Net) image(layer, name string, x *gorgonia.Node) bool {
	return n.shaped(layer, name, x, "batch", "channels", "height", "width")
}
