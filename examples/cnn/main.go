// Command cnn trains a convolutional network on the MNIST digits, to an accuracy of 99 % in three
// epochs.
package main

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

var example = run.Example{
	Name:  "cnn",
	Flags: run.Flags{Batch: 64, Epochs: 3, Optimizer: "adam", Seed: 1, Device: "cpu"},
	Model: cnn,
	Load:  load,
}

func main() { example.Main() }

// cnn is the model: two convolutions with pooling, dropout, and two dense layers.
func cnn(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	filters := layers.Conv2D{Out: 32, Kernel: layers.Square(3), Pad: layers.Square(1)}
	halve := layers.Pool{Kernel: layers.Square(2)}
	x := net.Input("x", batch, 1, 28, 28)
	h := net.MaxPool(net.Conv(x, "conv1", filters, layers.ReLU), "pool1", halve)
	filters.Out = 64
	h = net.MaxPool(net.Conv(h, "conv2", filters, layers.ReLU), "pool2", halve)
	h = net.Dense(net.Flatten(h, "flat"), "hidden", 128, layers.ReLU)
	h = net.Dropout(h, "dropout", 0.25)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// load reads MNIST as images of one channel.
func load(f run.Flags) (train, test dataloader.Dataset, err error) {
	return run.Digits(f.Data, 1, 28, 28)
}
