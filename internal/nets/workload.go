package nets

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Workload is a classifier whose training internal/peer and its subcommands time.
type Workload struct {
	Batch   int   // samples of a step
	Sample  []int // shape of a sample
	Classes int
	// Net adds the network to a classifier, and returns the logits. shrink divides widths, for slow
	// devices.
	Net func(net *layers.Net, x *gorgonia.Node, shrink int) *gorgonia.Node
}

// Workloads are the workloads by name.
var Workloads = map[string]Workload{
	"w1": {Batch: 128, Sample: []int{784}, Classes: 10, Net: digits},
	"w2": {Batch: 128, Sample: []int{784}, Classes: 10, Net: digits},
	"w3": {Batch: 64, Sample: []int{1, 28, 28}, Classes: 10, Net: small},
	"w4": {Batch: 64, Sample: []int{3, 32, 32}, Classes: 10, Net: deep},
	"w5": {Batch: 16, Sample: []int{16}, Classes: 4, Net: tiny},
}

// Model is a classifier for a batch. Weights start He-uniform, biases at 0.
func (w Workload) Model(g *gorgonia.ExprGraph, batch, shrink int) (layers.Model, error) {
	n := layers.New(g)
	n.Weights = layers.HeUniform{}
	x := n.Input("x", append([]int{batch}, w.Sample...)...)
	return n.Classifier(x, w.Net(n, x, shrink))
}

// digits is 784-512-256-10 with ReLU.
func digits(n *layers.Net, x *gorgonia.Node, shrink int) *gorgonia.Node {
	h := n.Dense(x, "hidden1", max(1, 512/shrink), layers.ReLU)
	h = n.Dense(h, "hidden2", max(1, 256/shrink), layers.ReLU)
	return n.Dense(h, "out", 10, nil)
}

var (
	three = layers.Conv2D{Kernel: layers.Square(3), Pad: layers.Square(1)} // keeps the size of the image
	two   = layers.Pool{Kernel: layers.Square(2), Stride: layers.Square(2)}
)

// small is two convolutions of 3×3 with 32 and 64 filters, each with ReLU and pooling by 2, and
// 3136-128-10.
func small(n *layers.Net, x *gorgonia.Node, shrink int) *gorgonia.Node {
	h := x
	for i, out := range []int{32, 64} {
		c := three
		c.Out = max(1, out/shrink)
		h = n.Conv(h, fmt.Sprint("conv", i+1), c, layers.ReLU)
		h = n.MaxPool(h, fmt.Sprint("pool", i+1), two)
	}
	h = n.Dense(n.Flatten(h, "flat"), "hidden", max(1, 128/shrink), layers.ReLU)
	return n.Dense(h, "out", 10, nil)
}

// deep is six convolutions of 3×3 with 64 to 256 filters, each with batch normalization and ReLU;
// pooling by 2 after two and four, and over the whole image at the end.
func deep(n *layers.Net, x *gorgonia.Node, shrink int) *gorgonia.Node {
	h := x
	for i, out := range []int{64, 64, 128, 128, 256, 256} {
		c := three
		c.Out, c.NoBias = max(1, out/shrink), true
		h = n.BatchNorm(n.Conv(h, fmt.Sprint("conv", i+1), c, nil), fmt.Sprint("norm", i+1), layers.ReLU)
		if i == 1 || i == 3 {
			h = n.MaxPool(h, fmt.Sprint("pool", i+1), two)
		}
	}
	return n.Dense(n.GlobalAvgPool(h, "mean"), "out", 10, nil)
}

// tiny is 16-32-4 with ReLU, in which the overhead of a step dominates its arithmetic.
func tiny(n *layers.Net, x *gorgonia.Node, shrink int) *gorgonia.Node {
	return n.Dense(n.Dense(x, "hidden", max(1, 32/shrink), layers.ReLU), "out", 4, nil)
}
