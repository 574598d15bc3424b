// Command mlp trains a multilayer perceptron, 784-512-256-10, on the MNIST digits, in memory that
// is planned before the first step.
package main

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

var example = run.Example{
	Name:  "mlp",
	Flags: run.Flags{Batch: 128, Epochs: 5, Optimizer: "adam", Seed: 1, Device: "cpu"},
	Model: mlp,
	Load:  load,
}

func main() { example.Main() }

// mlp is the model: two hidden layers and a softmax over the ten digits.
func mlp(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 28*28)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// load reads MNIST as rows of pixels.
func load(f run.Flags) (train, test dataloader.Dataset, err error) { return run.Digits(f.Data, 28*28) }
