// Command images trains a small convolutional network on pictures in files: a folder with a
// subfolder for each class, a tar archive, a Parquet file, or a pack. It draws the pictures itself,
// or takes those of -data, and stores the same ones in each form. All forms give the same results,
// to the bit.
package main

import (
	"context"
	"flag"
	"fmt"
	"image/png"
	"io"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// side is the height and the width of the images that the network gets.
const side = 32

func main() { newExample().Main() }

// newExample returns the program. It has flags of its own: -format, and -show.
func newExample() run.Example {
	d := &data{format: "folder"}
	return run.Example{
		Name:  "images",
		Flags: run.Flags{Batch: 64, Epochs: 5, Optimizer: "adam", Rate: 0.01, Seed: 1, Device: "cpu"},
		Add:   d.flags,
		Model: func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return cnn(g, batch, len(d.classes)) },
		Load:  d.load,
		Before: func(ctx context.Context, f run.Flags, train dataloader.Dataset, out io.Writer) (bool, error) {
			if d.show == "" {
				return false, nil
			}
			return true, d.sheet(ctx, f, train, out)
		},
		Close: d.close,
	}
}

// cnn is the model: three convolutions with batch normalization, the first two with pooling, and a
// dense layer.
func cnn(g *gorgonia.ExprGraph, batch, classes int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 3, side, side)
	h, halve := x, layers.Pool{Kernel: layers.Square(2)}
	for i, channels := range []int{16, 32, 64} {
		name := fmt.Sprint("conv", i+1)
		c := layers.Conv2D{Out: channels, Kernel: layers.Square(3), Pad: layers.Square(1), NoBias: true}
		h = net.BatchNorm(net.Conv(h, name, c, nil), name+"/norm", layers.ReLU)
		if i < 2 {
			h = net.MaxPool(h, name+"/pool", halve)
		}
	}
	return net.Classifier(x, net.Dense(net.GlobalAvgPool(h, "pool"), "out", classes, nil))
}

// pipelines return how pictures become images for training, with random changes, and for the test.
func pipelines() (train, test *images.Pipeline, err error) {
	train, err = images.New(images.Options{Height: side, Width: side, Steps: []images.Step{
		images.Resize{Shorter: side}, images.PadCrop{Pad: 4}, images.Flip{Horizontal: 0.5}, images.ColourJitter{Brightness: 0.2, Contrast: 0.2},
	}})
	if err != nil {
		return nil, nil, err
	}
	test, err = images.New(images.Options{Height: side, Width: side, Steps: []images.Step{images.Resize{Shorter: side}, images.CenterCrop{}}})
	return train, test, err
}

// data is the pictures that the flags select.
type data struct {
	format string
	show   string // file for a contact sheet

	mu      sync.Mutex
	classes []string
	dir     string // temporary folder of files that are written
	closers []io.Closer
}

// flags adds the flags.
func (d *data) flags(fs *flag.FlagSet) {
	names := strings.Join(formats(), ", ")
	fs.Func("format", "`form` of the pictures: "+names+"; default folder", func(s string) error {
		if d.format = s; !slices.Contains(formats(), s) {
			return fmt.Errorf("must be one of %s", names)
		}
		return nil
	})
	fs.StringVar(&d.show, "show", d.show, "write a contact sheet of the changed training images to `file`, a PNG, and stop")
}

// sheet writes the contact sheet: each picture as eight epochs see it.
func (d *data) sheet(ctx context.Context, f run.Flags, train dataloader.Dataset, out io.Writer) error {
	m, err := images.ContactSheet(ctx, train, images.SheetOptions{Count: 8, Columns: 8, Repeat: 8, Seed: f.Seed, Classes: d.classes})
	if err != nil {
		return err
	}
	err = create(d.show, func(w io.Writer) error { return png.Encode(w, m) })
	if err == nil {
		fmt.Fprintf(out, "%s: 8 of %d pictures, each as 8 epochs see it\n", d.show, train.Len())
	}
	return err
}
