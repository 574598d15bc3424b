package main

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// workload is a network and the rules for timing its training.
type workload struct {
	about     string // network and optimizer
	batch     int
	window    int // steps that are timed together
	warm      int // windows of warm-up
	epochs    int // default number of epochs, or 0
	steps     int // default number of timed steps, or 0
	optimizer optim.Optimizer
	sample    []int // shape of a sample
	classes   int
	shrink    int                                                                // divisor of widths, batches and data, for slow devices
	net       func(net *layers.Net, x *gorgonia.Node, shrink int) *gorgonia.Node // the logits
	load      func(w workload, f flags) (data, error)
}

// evalBatch is the batch of evaluation.
const evalBatch = 100

// workloads by name. Weights start He-uniform, biases at 0.
var workloads = map[string]workload{
	"w1": {about: "784-512-256-10, SGD", batch: 128, window: 100, warm: 1, epochs: 3, optimizer: optim.SGD{Rate: 0.1}, sample: []int{784}, classes: 10, net: digits, load: loadMNIST},
	"w2": {about: "784-512-256-10, Adam", batch: 128, window: 100, warm: 1, epochs: 3, optimizer: optim.Adam{Rate: 1e-3}, sample: []int{784}, classes: 10, net: digits, load: loadMNIST},
	"w3": {about: "2 convolutions, 2 poolings, 2 dense layers, 28 × 28, SGD", batch: 64, window: 100, warm: 1, epochs: 3, optimizer: optim.SGD{Rate: 0.1}, sample: []int{1, 28, 28}, classes: 10, net: small, load: loadMNIST},
	"w4": {about: "6 convolutions with batch normalization, 32 × 32 × 3, SGD", batch: 64, window: 1, warm: 3, steps: 20, optimizer: optim.SGD{Rate: 0.1}, sample: []int{3, 32, 32}, classes: 10, net: deep, load: loadImages},
	"w5": {about: "16-32-4, SGD", batch: 16, window: 1000, warm: 1, steps: 20000, optimizer: optim.SGD{Rate: 0.1}, sample: []int{16}, classes: 4, net: tiny, load: loadTeacher},
}

// model is the trainer.ModelFunc of the workload.
func (w workload) model(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	n.Weights = layers.HeUniform{}
	x := n.Input("x", append([]int{batch}, w.sample...)...)
	return n.Classifier(x, w.net(n, x, w.shrink))
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
