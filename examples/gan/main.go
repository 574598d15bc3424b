// Command gan trains a generator of MNIST digits against a discriminator, and draws 64 generated
// digits after each epoch.
package main

import (
	"context"
	"image"
	"image/color"
	"image/png"
	"io"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

var example = run.Example{
	Name:      "gan",
	Flags:     run.Flags{Batch: 64, Epochs: 8, Optimizer: "adam", Rate: 4e-4, Seed: 1, Device: "cpu", Picture: "gan.png"},
	Model:     gan,
	Load:      load,
	Adjust:    adjust,
	Draw:      draw,
	DrawsEach: true,
}

func main() { example.Main() }

const (
	side = 28 // width and height of a digit in pixels
	code = 64 // numbers that the generator makes a digit of
)

// gan is the model: a generator of digits, and a discriminator, which predicts whether a digit is
// real. Each has an objective: the discriminator to tell digits apart, the generator to have its own
// taken for real.
func gan(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, z := net.Input("x", batch, side*side), net.Input("z", batch, code)
	digits := generator(net.Scope("generator"), z)
	d := net.Shared("discriminator") // two uses of the same parameters
	real, generated := discriminator(d, x), discriminator(d, digits)

	// Reals have the target 0.9, so that the discriminator does not become certain (Salimans and
	// others, 2016).
	smooth := net.Constant(0.9, "smooth", batch, 1)
	ones, zeros := net.Constant(1.0, "ones", batch, 1), net.Constant(0.0, "zeros", batch, 1)
	loss := func(logits, target *gorgonia.Node, name string) *gorgonia.Node {
		return net.Mean(net.BinaryCrossEntropy(logits, target, nil, name+"/rows"), name, layers.Reduce{})
	}
	return trainer.Model{
		Inputs: net.Inputs(), Output: digits, Params: net.Params(),
		Objectives: []layers.Objective{
			{Name: "discriminator", Params: []string{"discriminator/"},
				Loss: net.Add(loss(real, smooth, "loss/real"), loss(generated, zeros, "loss/generated"), "loss/discriminator")},
			{Name: "generator", Params: []string{"generator/"}, Loss: loss(generated, ones, "loss/generator")},
		},
	}, net.Err()
}

// generator adds the generator: 64-256-512-784.
func generator(net *layers.Net, z *gorgonia.Node) *gorgonia.Node {
	h := net.Dense(z, "hidden1", 256, layers.ReLU)
	h = net.Dense(h, "hidden2", 512, layers.ReLU)
	return net.Dense(h, "out", side*side, layers.Sigmoid)
}

// discriminator adds the discriminator, 784-512-256-1, and returns logits. Dropout keeps it from
// being certain.
func discriminator(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	h := net.Dense(net.Affine(x, "", 2, -1), "hidden1", 512, layers.LeakyReLU(0.2))
	h = net.Dropout(h, "dropout1", 0.3)
	h = net.Dense(h, "hidden2", 256, layers.LeakyReLU(0.2))
	h = net.Dropout(h, "dropout2", 0.3)
	return net.Dense(h, "out", 1, nil)
}

// load reads the images of MNIST and adds noise.
func load(f run.Flags) (train, test dataloader.Dataset, err error) {
	if train, test, err = run.Digits(f.Data, side*side); err != nil {
		return nil, nil, err
	}
	if train, err = dataloader.Select(train, "x"); err != nil {
		return nil, nil, err
	}
	if test, err = dataloader.Select(test, "x"); err != nil {
		return nil, nil, err
	}
	return withNoise(train), withNoise(test), nil
}

// adjust sets the options of a GAN: Adam with less momentum (Radford, Metz and Chintala, 2016), and
// an average of the generator, which draws better digits than its last step.
func adjust(f run.Flags, opt *trainer.Options) {
	if f.Optimizer == "adam" {
		opt.Optimizer = optim.Adam{Rate: f.Rate, Beta1: 0.5}
	}
	opt.Average = optim.Average{Decay: 0.998}
}

// Layout of the picture: rows and columns of enlarged digits with gaps around them.
const (
	columns = 8
	enlarge = 2
	gap     = 4 // pixels
	cell    = side*enlarge + gap
)

// draw writes a PNG of 64 digits that the averaged generator makes of the noise of the test set, the
// same after each epoch.
func draw(ctx context.Context, t *trainer.Trainer, test dataloader.Dataset, w io.Writer) error {
	const size = columns*cell + gap
	picture := image.NewGray(image.Rect(0, 0, size, size))
	for i := range picture.Pix {
		picture.Pix[i] = 96
	}
	// The whole test set, which may be resident, and not a part of it, which never is.
	for p, err := range t.Averaged().Predict(ctx, test) {
		if err != nil {
			return err
		}
		if p.Sample >= columns*columns {
			break
		}
		left, top := gap+p.Sample%columns*cell, gap+p.Sample/columns*cell
		for i, ink := range p.Output {
			grey := color.Gray{Y: uint8(255*ink + 0.5)}
			for k := range enlarge * enlarge {
				picture.SetGray(left+i%side*enlarge+k%enlarge, top+i/side*enlarge+k/enlarge, grey)
			}
		}
	}
	return png.Encode(w, picture)
}
