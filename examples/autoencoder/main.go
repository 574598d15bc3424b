// Command autoencoder trains 784-256-64-32-64-256-784 to reproduce the MNIST digits from 32 numbers
// each. It draws test digits above their reconstructions.
package main

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

var example = run.Example{
	Name:  "autoencoder",
	Flags: run.Flags{Batch: 128, Epochs: 5, Optimizer: "adam", Seed: 1, Device: "cpu", Picture: "autoencoder.png"},
	Model: autoencoder,
	Load:  load,
	Draw:  draw,
}

func main() { example.Main() }

const side = 28 // width and height of a digit in pixels

// autoencoder is the model: an encoder to 32 numbers, and its mirror.
func autoencoder(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, side*side)
	h := net.Dense(x, "encode1", 256, layers.ReLU)
	h = net.Dense(h, "encode2", 64, layers.ReLU)
	h = net.Dense(h, "code", 32, nil)
	h = net.Dense(h, "decode1", 64, layers.ReLU)
	h = net.Dense(h, "decode2", 256, layers.ReLU)
	return net.Autoencoder(x, net.Dense(h, "out", side*side, layers.Sigmoid))
}

// load reads the images of MNIST, without their labels.
func load(f run.Flags) (train, test dataloader.Dataset, err error) {
	if train, test, err = run.Digits(f.Data, side*side); err != nil {
		return nil, nil, err
	}
	if train, err = dataloader.Select(train, "x"); err != nil {
		return nil, nil, err
	}
	test, err = dataloader.Select(test, "x")
	return train, test, err
}

// Layout of the picture: columns of enlarged digits with gaps around them.
const (
	columns = 16
	enlarge = 3
	gap     = 4 // pixels
)

// draw writes a PNG of the first digits of the test set above their reconstructions.
func draw(ctx context.Context, t *trainer.Trainer, test dataloader.Dataset, w io.Writer) error {
	n := min(columns, test.Len())
	const cell = side*enlarge + gap
	picture := image.NewGray(image.Rect(0, 0, n*cell+gap, 2*cell+gap))
	for i := range picture.Pix {
		picture.Pix[i] = 96
	}
	put := func(column, row int, brightness func(pixel int) float64) {
		for p := range side * side {
			grey := color.Gray{Y: uint8(min(max(255*brightness(p)+0.5, 0), 255))}
			for k := range enlarge * enlarge {
				picture.SetGray(gap+column*cell+p%side*enlarge+k%enlarge, gap+row*cell+p/side*enlarge+k/enlarge, grey)
			}
		}
	}
	original := [][]byte{make([]byte, side*side)}
	// The whole test set, which may be resident, and not a part of it, which never is.
	for p, err := range t.Predict(ctx, test) {
		if err != nil {
			return err
		}
		if p.Sample >= n {
			break
		}
		if err := test.Fetch(ctx, dataloader.At{Index: p.Sample}, original); err != nil {
			return fmt.Errorf("digit %d: %w", p.Sample, err)
		}
		put(p.Sample, 0, func(i int) float64 { return float64(original[0][i]) / 255 })
		put(p.Sample, 1, func(i int) float64 { return p.Output[i] })
	}
	return png.Encode(w, picture)
}
