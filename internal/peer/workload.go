package main

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// workload is a network, and how its training is timed.
type workload struct {
	batch     int
	window    int // steps that are timed together
	warm      int // windows that do not count
	epochs    int // where epochs are asked for
	steps     int // where timed steps are
	optimizer optim.Optimizer
	sample    []int // shape of one
	classes   int
	net       func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node // the logits
	load      func(w workload, f flags) (data, error)
}

// evalBatch is the batch of evaluation.
const evalBatch = 100

// workloads by name. Weights start He-uniform, biases at 0.
var workloads = map[string]workload{
	"w1": {batch: 128, window: 100, warm: 1, epochs: 3, optimizer: optim.SGD{Rate: 0.1}, sample: []int{784}, classes: 10, net: digits, load: loadMNIST},
	"w2": {batch: 128, window: 100, warm: 1, epochs: 3, optimizer: optim.Adam{Rate: 1e-3}, sample: []int{784}, classes: 10, net: digits, load: loadMNIST},
	"w5": {batch: 16, window: 1000, warm: 1, steps: 20000, optimizer: optim.SGD{Rate: 0.1}, sample: []int{16}, classes: 4, net: tiny, load: loadTeacher},
}

// model returns the function that the trainer wants.
func (w workload) model(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.On(g)
	n.Weights = layers.HeUniform{}
	x := n.Input("x", append([]int{batch}, w.sample...)...)
	return n.Classifier(x, w.net(n, x))
}

// digits is 784-512-256-10 with ReLU.
func digits(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	h := n.Dense(x, "hidden1", 512, layers.ReLU)
	h = n.Dense(h, "hidden2", 256, layers.ReLU)
	return n.Dense(h, "out", 10, nil)
}

// tiny is 16-32-4 with ReLU, where what a step costs beside its arithmetic shows.
func tiny(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	return n.Dense(n.Dense(x, "hidden", 32, layers.ReLU), "out", 4, nil)
}
