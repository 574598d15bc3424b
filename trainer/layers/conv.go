package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Conv2D describes a convolution. Sizes are height, width; see [Square].
type Conv2D struct {
	Out      int    // channels of the result
	Kernel   [2]int // size of the filters
	Stride   [2]int // both zero: 1
	Pad      [2]int // zeros around the image, on each side
	Dilation [2]int // distance of a filter's taps; both zero: 1
	Groups   int    // parts that channels are cut into, each of which sees its own only; 0: 1. The input's channels: depthwise
	NoBias   bool   // no bias is added: batch normalization, which follows, adds its own
}

// Conv adds act(x ∗ w + b).  x [B, C, H, W] → [B, Out, OH, OW], OH = (H + 2·Pad − Dilation·(Kernel−1) − 1)/Stride + 1.
// It makes parameters name/w [Out, C/Groups, Kernel, Kernel] and, but for NoBias, name/b [Out]; b starts at 0 and w as
// Net.Weights says. act may be nil.
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
		n.fail(fmt.Errorf("%s: %d channels out: must be 1 or more: %w", layer, c.Out, ErrShape))
	case min(c.Kernel[0], c.Kernel[1]) < 1:
		n.fail(fmt.Errorf("%s: kernel %s: must be 1 or more each way: %w", layer, shapeString(c.Kernel[:]), ErrShape))
	case a.Groups < 0 || channels%a.Groups != 0 || c.Out%a.Groups != 0:
		n.fail(fmt.Errorf("%s: %d groups do not divide %d channels of input %s and %d out: %w", layer, a.Groups, channels, shapeString(x.Shape()), c.Out, ErrShape))
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
