package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Conv2D describes a convolution. Sizes are height and width; [Square] sets both.
type Conv2D struct {
	Out      int    // output channels
	Kernel   [2]int // size of the filters
	Stride   [2]int // both zero: 1
	Pad      [2]int // rows and columns of zeros added on each side of the image
	Dilation [2]int // distance between the elements of a filter; both zero: 1
	Groups   int    // groups of channels, each convolved with its own filters; 0: 1. A depthwise convolution has one for each input channel
	NoBias   bool   // leave out the bias, for example before batch normalization
}

// Conv adds a convolution, act(x ∗ w + b).
//
//	x [B, C, H, W] → [B, Out, OH, OW]
//	OH = (H + 2·Pad − Dilation·(Kernel−1) − 1)/Stride + 1, and OW alike
//
// The parameters are name/w [Out, C/Groups, Kernel, Kernel], which starts with Net.Weights, and
// name/b [Out], which starts at 0 and which NoBias leaves out. act may be nil.
func (n *Net) Conv(x *gorgonia.Node, name string, c Conv2D, act Activation) *gorgonia.Node {
	layer := fmt.Sprintf("conv %q", name)
	if !n.image(layer, name, x) {
		return nil
	}
	a := kernels.ConvAttrs{Stride: c.Stride, Pad: c.Pad, Dilation: c.Dilation, Groups: c.Groups, Bias: !c.NoBias}
	if a.Stride == [2]int{} {
		a.Stride = Square(1)
	}
	if a.Dilation == [2]int{} {
		a.Dilation = Square(1)
	}
	if a.Groups == 0 {
		a.Groups = 1
	}
	channels := x.Shape()[1]
	switch {
	case c.Out < 1:
		n.fail(fmt.Errorf("%s: %d output channels: must be 1 or more: %w", layer, c.Out, ErrShape))
	case min(c.Kernel[0], c.Kernel[1]) < 1:
		n.fail(fmt.Errorf("%s: kernel %s: height and width must be 1 or more: %w", layer, shapeString(c.Kernel[:]), ErrShape))
	case a.Groups < 0 || channels%a.Groups != 0 || c.Out%a.Groups != 0:
		n.fail(fmt.Errorf("%s: %d groups do not divide the %d channels of input %s and the %d output channels: %w", layer, a.Groups, channels, shapeString(x.Shape()), c.Out, ErrShape))
	}
	if n.err != nil {
		return nil
	}
	operands := gorgonia.Nodes{x, n.Param(name+"/w", n.weights(act), c.Out, channels/a.Groups, c.Kernel[0], c.Kernel[1])}
	if a.Bias {
		operands = append(operands, n.Param(name+"/b", Zeros{}, c.Out))
	}
	return n.activated(n.apply(layer, name+"/out", kernels.Conv, a, operands...), name, act)
}
