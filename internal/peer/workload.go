package main

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// workload is a network and the rules for timing its training.
type workload struct {
	nets.Workload
	about     string // network and optimizer
	window    int    // steps that are timed together
	warm      int    // windows of warm-up
	epochs    int    // default number of epochs, or 0
	steps     int    // default number of timed steps, or 0
	optimizer optim.Optimizer
	shrink    int // divisor of widths, batches and data, for slow devices
	load      func(w workload, f flags) (data, error)
}

// evalBatch is the batch of evaluation.
const evalBatch = 100

// workloads by name.
var workloads = map[string]workload{
	"w1": {Workload: nets.Workloads["w1"], about: "784-512-256-10, SGD", window: 100, warm: 1, epochs: 3, optimizer: optim.SGD{Rate: 0.1}, load: loadMNIST},
	"w2": {Workload: nets.Workloads["w2"], about: "784-512-256-10, Adam", window: 100, warm: 1, epochs: 3, optimizer: optim.Adam{Rate: 1e-3}, load: loadMNIST},
	"w3": {Workload: nets.Workloads["w3"], about: "2 convolutions, 2 poolings, 2 dense layers, 28 × 28, SGD", window: 100, warm: 1, epochs: 3, optimizer: optim.SGD{Rate: 0.1}, load: loadMNIST},
	"w4": {Workload: nets.Workloads["w4"], about: "6 convolutions with batch normalization, 32 × 32 × 3, SGD", window: 1, warm: 3, steps: 20, optimizer: optim.SGD{Rate: 0.1}, load: loadImages},
	"w5": {Workload: nets.Workloads["w5"], about: "16-32-4, SGD", window: 1000, warm: 1, steps: 20000, optimizer: optim.SGD{Rate: 0.1}, load: loadTeacher},
}

// model is the trainer.ModelFunc of the workload.
func (w workload) model(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	return w.Model(g, batch, w.shrink)
}
