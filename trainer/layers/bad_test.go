package layers_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// image is an input [2, 6, 5, 4].
func image(n *layers.Net) *gorgonia.Node { return n.Input("x", 2, 6, 5, 4) }

func TestBadConvolutionalLayersAreErrorsThatNameLayerAndShapes(t *testing.T) {
	conv := func(c layers.Conv2D) func(*layers.Net) {
		return func(n *layers.Net) { n.Conv(image(n), "c", c, nil) }
	}
	square := layers.Square
	pool := func(p layers.Pool) func(*layers.Net) {
		return func(n *layers.Net) { n.MaxPool(image(n), "p", p) }
	}
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  []string
	}{
		{"conv of rows", func(n *layers.Net) { n.Conv(n.Input("x", 2, 784), "c", layers.Conv2D{Out: 1, Kernel: square(3)}, nil) }, layers.ErrShape,
			[]string{`conv "c"`, "(2, 784)", "4 dimensions"}},
		{"conv without a name", func(n *layers.Net) { n.Conv(image(n), "", layers.Conv2D{Out: 1, Kernel: square(3)}, nil) }, layers.ErrName, []string{`conv layer over "x" has no name`}},
		{"no channels", conv(layers.Conv2D{Kernel: square(3)}), layers.ErrShape, []string{`conv "c"`, "0 output channels"}},
		{"no kernel", conv(layers.Conv2D{Out: 4}), layers.ErrShape, []string{`conv "c"`, "kernel (0, 0)"}},
		{"kernel larger than the image", conv(layers.Conv2D{Out: 4, Kernel: square(7)}), layers.ErrShape, []string{`conv "c"`, "(2, 6, 5, 4)", "7"}},
		{"dilated kernel larger than the image", conv(layers.Conv2D{Out: 4, Kernel: square(3), Dilation: square(3)}), layers.ErrShape, []string{`conv "c"`, "(2, 6, 5, 4)"}},
		{"stride of 0 one way", conv(layers.Conv2D{Out: 4, Kernel: square(3), Stride: [2]int{1, 0}}), kernels.ErrAttrs, []string{`conv "c"`, "stride"}},
		{"negative stride", conv(layers.Conv2D{Out: 4, Kernel: square(3), Stride: square(-1)}), kernels.ErrAttrs, []string{`conv "c"`, "stride"}},
		{"negative padding", conv(layers.Conv2D{Out: 4, Kernel: square(3), Pad: square(-1)}), kernels.ErrAttrs, []string{`conv "c"`, "pad"}},
		{"negative dilation", conv(layers.Conv2D{Out: 4, Kernel: square(3), Dilation: square(-2)}), kernels.ErrAttrs, []string{`conv "c"`, "dilation"}},
		{"groups that do not divide the input", conv(layers.Conv2D{Out: 4, Kernel: square(3), Groups: 4}), layers.ErrShape, []string{`conv "c"`, "4 groups", "(2, 6, 5, 4)"}},
		{"groups that do not divide the output", conv(layers.Conv2D{Out: 4, Kernel: square(3), Groups: 3}), layers.ErrShape, []string{`conv "c"`, "3 groups", "4 out"}},
		{"negative groups", conv(layers.Conv2D{Out: 4, Kernel: square(3), Groups: -2}), layers.ErrShape, []string{`conv "c"`, "-2 groups"}},
		{"pool of rows", func(n *layers.Net) { n.MaxPool(n.Input("x", 2, 784), "p", layers.Pool{Kernel: square(2)}) }, layers.ErrShape, []string{`max pool "p"`, "(2, 784)"}},
		{"no window", pool(layers.Pool{}), kernels.ErrAttrs, []string{`max pool "p"`, "kernel"}},
		{"window larger than the image", pool(layers.Pool{Kernel: square(6)}), layers.ErrShape, []string{`max pool "p"`, "(2, 6, 5, 4)"}},
		{"padding as large as the window", pool(layers.Pool{Kernel: square(2), Pad: square(2)}), kernels.ErrAttrs, []string{`max pool "p"`, "pad"}},
		{"window without stride one way", pool(layers.Pool{Kernel: square(2), Stride: [2]int{0, 2}}), kernels.ErrAttrs, []string{`max pool "p"`, "stride"}},
		{"global pool of rows", func(n *layers.Net) { n.GlobalAvgPool(n.Input("x", 2, 784), "p") }, layers.ErrShape, []string{`global average pool "p"`, "(2, 784)"}},
		{"global pool without a name", func(n *layers.Net) { n.GlobalAvgPool(image(n), "") }, layers.ErrName, []string{`over "x" has no name`}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
}

func TestOtherBadLayersAreErrorsThatNameLayerAndShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  []string
	}{
		{"batch norm of a vector", func(n *layers.Net) { n.BatchNorm(n.Input("x", 8), "n", nil) }, layers.ErrShape, []string{`batch norm "n"`, "(8)"}},
		{"batch norm twice", func(n *layers.Net) { n.BatchNorm(n.BatchNorm(image(n), "n", nil), "n", nil) }, layers.ErrName, []string{`parameter "n/gamma"`}},
		{"layer norm of a vector", func(n *layers.Net) { n.LayerNorm(n.Input("x", 8), "n") }, layers.ErrShape, []string{`layer norm "n"`, "(8)"}},
		{"groups that do not divide", func(n *layers.Net) { n.GroupNorm(image(n), "n", 4) }, layers.ErrShape, []string{`group norm "n"`, "4 groups", "6 channels"}},
		{"no groups", func(n *layers.Net) { n.GroupNorm(image(n), "n", 0) }, layers.ErrShape, []string{`group norm "n"`, "0 groups"}},
		{"rate of 1", func(n *layers.Net) { n.Dropout(image(n), "d", 1) }, kernels.ErrAttrs, []string{`dropout "d"`, "rate 1 "}},
		{"rate below 0", func(n *layers.Net) { n.Dropout(image(n), "d", -0.1) }, kernels.ErrAttrs, []string{`dropout "d"`, "rate -0.1 "}},
		{"rate that is no number", func(n *layers.Net) { n.Dropout(image(n), "d", math.NaN()) }, kernels.ErrAttrs, []string{`dropout "d"`, "NaN"}},
		{"dropout of another type", func(n *layers.Net) { x := image(n); n.Type = tensor.Float64; n.Dropout(x, "d", 0.5) }, layers.ErrShape, []string{`dropout "d"`, "float32"}},
		{"embedding of floats", func(n *layers.Net) { n.Embedding(n.Input("x", 3), "e", 4, 2) }, layers.ErrShape, []string{`embedding "e"`, "float32", "Indices"}},
		{"embedding of images", func(n *layers.Net) { n.Embedding(n.Indices("x", 3, 2, 2), "e", 4, 2) }, layers.ErrShape, []string{`embedding "e"`, "(3, 2, 2)"}},
		{"empty table", func(n *layers.Net) { n.Embedding(n.Indices("x", 3), "e", 0, 2) }, layers.ErrShape, []string{`embedding "e"`, "0 rows of 2"}},
		{"embedding of nothing", func(n *layers.Net) { n.Embedding(nil, "e", 4, 2) }, layers.ErrNode, []string{`embedding "e"`, "nil"}},
		{"embedding without a name", func(n *layers.Net) { n.Embedding(n.Indices("x", 3), "", 4, 2) }, layers.ErrName, []string{`over "x" has no name`}},
		{"residual of nothing", func(n *layers.Net) { n.Residual(image(n), "r", nil, nil) }, layers.ErrNode, []string{`residual "r"`, "nil"}},
		{"residual of a nil node", func(n *layers.Net) {
			n.Residual(image(n), "r", func(*gorgonia.Node) *gorgonia.Node { return nil }, nil)
		}, layers.ErrNode, []string{`residual "r"`, "its function returned no node"}},
		{"activation that makes nothing", func(n *layers.Net) {
			n.Conv(image(n), "c", layers.Conv2D{Out: 2, Kernel: layers.Square(1)}, func(*layers.Net, *gorgonia.Node, string) *gorgonia.Node { return nil })
		}, layers.ErrNode, []string{`"c"`, "activation"}},
		{"table beyond all memory", func(n *layers.Net) { n.Embedding(n.Indices("x", 3), "e", 1<<40, 1<<24) }, kernels.ErrShape, []string{`"e/table"`, "(1099511627776, 16777216)", "2^46"}},
		{"weights beyond all memory", func(n *layers.Net) { n.Dense(n.Input("x", 2, 3), "d", 1<<60, nil) }, kernels.ErrShape, []string{`"d/w"`, "2^46"}},
		{"filters beyond all memory", func(n *layers.Net) { n.Conv(image(n), "c", layers.Conv2D{Out: 1 << 61, Kernel: layers.Square(1)}, nil) }, kernels.ErrShape, []string{`"c/w"`, "2^46"}},
		{"two dropouts of one name", func(n *layers.Net) { n.Dropout(n.Dropout(image(n), "d", 0.5), "d", 0.5) }, layers.ErrName, []string{`dropout "d"`, "already"}},
		{"dropouts of one name on one input", func(n *layers.Net) { x := image(n); n.Dropout(x, "d", 0.5); n.Dropout(x, "d", 0.5) }, layers.ErrName, []string{`dropout "d"`}},
		{"pools of one name", func(n *layers.Net) {
			p := layers.Pool{Kernel: layers.Square(1)}
			n.MaxPool(n.AvgPool(image(n), "p", p), "p", p)
		}, layers.ErrName, []string{`max pool "p"`, "already"}},
		{"activation of integers", func(n *layers.Net) { layers.ReLU(n, n.Indices("x", 3), "") }, layers.ErrShape, []string{`relu of "x"`, "int", "Cast"}},
		{"residual that no convolution leads to", func(n *layers.Net) {
			n.Residual(image(n), "r", func(x *gorgonia.Node) *gorgonia.Node {
				return n.Conv(x, "c", layers.Conv2D{Out: 6, Kernel: layers.Square(1), Pad: layers.Square(1)}, nil)
			}, nil)
		}, layers.ErrShape, []string{`residual "r"`, "(2, 6, 5, 4)", "(2, 6, 7, 6)"}},
		{"residual of rows of another length", func(n *layers.Net) {
			n.Residual(n.Input("x", 2, 3), "r", func(x *gorgonia.Node) *gorgonia.Node { return n.Dense(x, "d", 4, nil) }, nil)
		}, layers.ErrShape, []string{`residual "r"`, "(2, 3)", "(2, 4)"}},
		{"no statistic", func(n *layers.Net) { n.Statistic("s", nil, 3) }, layers.ErrInit, []string{`statistic "s"`}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
}

// refused checks that a net keeps the error of a layer that cannot be.
func refused(t *testing.T, build func(n *layers.Net), is error, want ...string) {
	t.Helper()
	net := layers.New(gorgonia.NewGraph())
	build(net)
	err := net.Err()
	if !errors.Is(err, is) {
		t.Fatalf("got %v, want %v", err, is)
	}
	for _, w := range want {
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(w)) {
			t.Errorf("got %q, want it to say %q", err, w)
		}
	}
}
