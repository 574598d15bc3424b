// Command resnet trains a small residual network with batch normalization on images of 3×32×32: on
// CIFAR-10 if -data is its directory, else on shapes that it draws itself (see package shapes). Training
// images are shifted and mirrored at random.
package main

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/examples/internal/shapes"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Images have three channels of side×side pixels.
const (
	side    = shapes.Side
	classes = shapes.Classes
)

var example = run.Example{
	Name:  "resnet",
	Flags: run.Flags{Batch: 64, Epochs: 5, Optimizer: "adam", Rate: 0.003, Seed: 1, Device: "cpu"},
	Model: resnet,
	Load:  load,
}

func main() { example.Main() }

// resnet is the model: a convolution, then three stages of one residual block each. Each later
// stage has half the image size and twice the channels. It is ResNet-8 of He et al., 2016, section
// 4.2, with projections between stages.
func resnet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 3, side, side)
	h := conv(net, x, "stem", 16, 1, layers.ReLU)
	for stage, channels := range []int{16, 32, 64} {
		name, stride := fmt.Sprintf("stage%d", stage+1), min(stage+1, 2)
		h = net.Residual(h, name, func(x *gorgonia.Node) *gorgonia.Node {
			x = conv(net, x, name+"/conv1", channels, stride, layers.ReLU)
			return conv(net, x, name+"/conv2", channels, 1, nil)
		}, layers.ReLU)
	}
	return net.Classifier(x, net.Dense(net.GlobalAvgPool(h, "pool"), "out", classes, nil))
}

// conv adds a 3×3 convolution, batch normalization, which has a bias of its own, and an activation.
func conv(net *layers.Net, x *gorgonia.Node, name string, out, stride int, act layers.Activation) *gorgonia.Node {
	c := layers.Conv2D{Out: out, Kernel: layers.Square(3), Stride: layers.Square(stride), Pad: layers.Square(1), NoBias: true}
	return net.BatchNorm(net.Conv(x, name, c, nil), name+"/norm", act)
}

// load reads CIFAR-10, or draws shapes.
func load(f run.Flags) (train, test dataloader.Dataset, err error) {
	if f.Data != "" {
		train, test, err = dataloader.CIFAR10(f.Data)
	} else {
		train, test, err = shapes.Sets(f.Seed, 10000, 2000)
	}
	if err != nil || f.Resident { // resident samples cannot change from epoch to epoch
		return train, test, err
	}
	return dataloader.Map(train, augment), test, nil
}
