package nets

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// DigitsMLP adds 784-512-256-10 with ReLU to a classifier of digits, and returns the logits. x is
// [batch, 784].
func DigitsMLP(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Dense(h, "out", 10, nil)
}

// DigitsCNN adds the network of examples/cnn, and returns the logits. x is [batch, 1, 28, 28], or
// images of another size. Dropout 0 leaves the layer out.
func DigitsCNN(net *layers.Net, x *gorgonia.Node, dropout float64) *gorgonia.Node {
	filters := layers.Conv2D{Out: 32, Kernel: layers.Square(3), Pad: layers.Square(1)}
	halve := layers.Pool{Kernel: layers.Square(2)}
	h := net.MaxPool(net.Conv(x, "conv1", filters, layers.ReLU), "pool1", halve)
	filters.Out = 64
	h = net.MaxPool(net.Conv(h, "conv2", filters, layers.ReLU), "pool2", halve)
	h = net.Dense(net.Flatten(h, "flat"), "hidden", 128, layers.ReLU)
	if dropout > 0 {
		h = net.Dropout(h, "dropout", dropout)
	}
	return net.Dense(h, "out", 10, nil)
}

// DigitsCode is the length of the noise that the generator of [DigitsGAN] makes a digit of.
const DigitsCode = 64

// DigitsGAN is the model of examples/gan: a generator, 64-256-512-784, and a discriminator,
// 784-512-256-1, with dropout. Its inputs are the digits x, [batch, 784], and the noise z.
func DigitsGAN(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	net := layers.New(g)
	x, z := net.Input("x", batch, 784), net.Input("z", batch, DigitsCode)
	made := net.Scope("generator")
	h := made.Dense(z, "hidden1", 256, layers.ReLU)
	h = made.Dense(h, "hidden2", 512, layers.ReLU)
	digits := made.Dense(h, "out", 784, layers.Sigmoid)
	d := net.Shared("discriminator")
	logits := func(x *gorgonia.Node) *gorgonia.Node {
		h := d.Dense(d.Affine(x, "", 2, -1), "hidden1", 512, layers.LeakyReLU(0.2))
		h = d.Dense(d.Dropout(h, "dropout1", 0.3), "hidden2", 256, layers.LeakyReLU(0.2))
		return d.Dense(d.Dropout(h, "dropout2", 0.3), "out", 1, nil)
	}
	real, generated := logits(x), logits(digits)
	loss := func(logits *gorgonia.Node, target float64, name string) *gorgonia.Node {
		y := net.Constant(target, name+"/target", batch, 1)
		return net.Mean(net.BinaryCrossEntropy(logits, y, nil, name+"/rows"), name, layers.Reduce{})
	}
	return layers.Model{
		Inputs: net.Inputs(), Output: digits, Params: net.Params(),
		Objectives: []layers.Objective{
			{Name: "discriminator", Params: []string{"discriminator/"},
				Loss: net.Add(loss(real, 0.9, "loss/real"), loss(generated, 0, "loss/generated"), "loss/discriminator")},
			{Name: "generator", Params: []string{"generator/"}, Loss: loss(generated, 1, "loss/fooled")},
		},
	}, net.Err()
}
