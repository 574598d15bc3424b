package layers_test

import (
	"context"
	"fmt"
	"log"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A convolutional network for images of 3×32×32: convolution, batch normalization and ReLU, a residual block that halves the
// image, and a classifier over ten classes. Its memory is planned before anything is allocated.
func Example() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		conv := func(x *gorgonia.Node, name string, out, stride int, act layers.Activation) *gorgonia.Node {
			x = net.Conv(x, name, layers.Conv2D{Out: out, Kernel: layers.Square(3), Stride: layers.Square(stride), Pad: layers.Square(1), NoBias: true}, nil)
			return net.BatchNorm(x, name+"/norm", act)
		}
		x := net.Input("x", batch, 3, 32, 32)
		h := net.MaxPool(conv(x, "stem", 16, 1, layers.ReLU), "pool", layers.Pool{Kernel: layers.Square(2)})
		h = net.Residual(h, "block", func(x *gorgonia.Node) *gorgonia.Node {
			return conv(conv(x, "block/conv1", 32, 2, layers.ReLU), "block/conv2", 32, 1, nil)
		}, layers.ReLU)
		h = net.Dropout(net.GlobalAvgPool(h, "mean"), "dropout", 0.1)
		return net.Classifier(x, net.Dense(h, "out", 10, nil)) // the net's first error, if there was one, comes out here
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	plan, err := trainer.Plan(context.Background(), model, trainer.Options{Device: device, Batch: 64, Optimizer: optim.Adam{}})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range plan.Regions {
		if r.Name == "parameters" || r.Name == "running statistics" {
			fmt.Printf("%s: %d bytes\n", r.Name, r.Bytes)
		}
	}
	// Output:
	// parameters: 61288 bytes
	// running statistics: 896 bytes
}
