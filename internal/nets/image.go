package nets

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// same returns a 3×3 convolution that keeps the size of the image.
func same(out int) layers.Conv2D {
	return layers.Conv2D{Out: out, Kernel: layers.Square(3), Pad: layers.Square(1)}
}

// halve is pooling that halves the size of the image.
var halve = layers.Pool{Kernel: layers.Square(2)}

// vgg is configuration A of Simonyan and Zisserman, 2015, followed by one hidden layer.  x [B, 3,
// side, side].
func vgg(side, width int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, side, side)
		h := x
		for stage, convolutions := range []int{1, 1, 2, 2, 2} {
			for k := range convolutions {
				h = net.Conv(h, fmt.Sprintf("conv%d_%d", stage+1, k+1), same(width<<min(stage, 3)), layers.ReLU)
			}
			h = net.MaxPool(h, fmt.Sprintf("pool%d", stage+1), halve)
		}
		h = net.Dense(net.Flatten(h, "flat"), "hidden", 8*width, layers.ReLU)
		return net.Classifier(x, net.Dense(h, "out", classes, nil))
	}
}

// resnet has three stages of residual blocks, after He et al., 2016, section 4.2.  x [B, 3, side,
// side].
func resnet(side, width, blocks int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		normal := func(x *gorgonia.Node, name string, out, stride int, act layers.Activation) *gorgonia.Node {
			c := same(out)
			c.Stride, c.NoBias = layers.Square(stride), true
			return net.BatchNorm(net.Conv(x, name, c, nil), name+"/norm", act)
		}
		x := net.Input("x", batch, 3, side, side)
		h := normal(x, "stem", width, 1, layers.ReLU)
		for stage := range 3 {
			for k := range blocks {
				name, stride := fmt.Sprintf("stage%d_%d", stage+1, k+1), 1
				if stage > 0 && k == 0 {
					stride = 2
				}
				h = net.Residual(h, name, func(x *gorgonia.Node) *gorgonia.Node {
					x = normal(x, name+"/conv1", width<<stage, stride, layers.ReLU)
					return normal(x, name+"/conv2", width<<stage, 1, nil)
				}, layers.ReLU)
			}
		}
		return net.Classifier(x, net.Dense(net.GlobalAvgPool(h, "pool"), "out", classes, nil))
	}
}

// unet halves images on the way down and doubles them on the way up, where it concatenates the
// features of the same size from the way down. It returns one number for each pixel. After
// Ronneberger, Fischer and Brox, 2015.
// x [B, 3, side, side] → [B, 1, side, side].
func unet(side, width, levels int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		twice := func(x *gorgonia.Node, name string, out int) *gorgonia.Node {
			x = net.Conv(x, name+"_1", same(out), layers.ReLU)
			return net.Conv(x, name+"_2", same(out), layers.ReLU)
		}
		x := net.Input("x", batch, 3, side, side)
		skips := make(gorgonia.Nodes, levels)
		h := x
		for l := range levels {
			if l > 0 {
				h = net.MaxPool(h, fmt.Sprintf("pool%d", l), halve)
			}
			h = twice(h, fmt.Sprintf("down%d", l), width<<l)
			skips[l] = h
		}
		for l := levels - 2; l >= 0; l-- {
			if net.Err() != nil {
				return layers.Model{}, net.Err()
			}
			h = net.Conv(double(h), fmt.Sprintf("narrow%d", l), same(width<<l), layers.ReLU)
			if net.Err() != nil {
				return layers.Model{}, net.Err()
			}
			h = twice(gorgonia.Must(gorgonia.Concat(1, skips[l], h)), fmt.Sprintf("up%d", l), width<<l)
		}
		return net.Regressor(x, net.Conv(h, "out", layers.Conv2D{Out: 1, Kernel: layers.Square(1)}, nil))
	}
}

// double repeats each pixel four times.  x [B, C, H, W] → [B, C, 2H, 2W].
func double(x *gorgonia.Node) *gorgonia.Node {
	s := x.Shape()
	b, c, h, w := s[0], s[1], s[2], s[3]
	x = gorgonia.Must(gorgonia.Reshape(x, tensor.Shape{b, c, h, w, 1}))
	x = gorgonia.Must(gorgonia.Reshape(gorgonia.Must(gorgonia.Concat(4, x, x)), tensor.Shape{b, c, h, 1, 2 * w}))
	return gorgonia.Must(gorgonia.Reshape(gorgonia.Must(gorgonia.Concat(3, x, x)), tensor.Shape{b, c, 2 * h, 2 * w}))
}
