package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Square returns n for height and width.
func Square(n int) [2]int { return [2]int{n, n} }

// GlobalAvgPool adds the mean of each channel of each image.  x [B, C, H, W] → [B, C].
func (n *Net) GlobalAvgPool(x *gorgonia.Node, name string) *gorgonia.Node {
	layer := fmt.Sprintf("global average pool %q", name)
	if !n.image(layer, name, x) {
		return nil
	}
	return n.apply(layer, name, kernels.Mean, kernels.ReduceAttrs{Axes: []int{2, 3}}, x)
}

// image reports whether a layer called name can be built on images x [B, C, H, W], and keeps an error where not.
func (n *Net) image(layer, name string, x *gorgonia.Node) bool {
	if n.layer(layer, name, x) && x.Dims() != 4 {
		n.fail(fmt.Errorf("%s: input %s needs 4 dimensions, [batch, channels, height, width]: %w", layer, shapeString(x.Shape()), ErrShape))
	}
	return n.err == nil
}
