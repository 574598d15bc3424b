package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// data are what a workload trains and evaluates on: two datasets, or twice the same.
type data struct {
	train, test dataloader.Dataset
	drop        func() // forgets what the device has a copy of
}

// loadMNIST reads the four files.
func loadMNIST(w workload, f flags) (data, error) {
	train, test, err := dataloader.MNIST(f.data, w.sample...)
	if err != nil {
		return data{}, err
	}
	if f.trainN < train.Len() {
		if train, err = dataloader.Subset(train, 0, f.trainN); err != nil {
			return data{}, err
		}
	}
	a, b := newDecoded(train), newDecoded(test)
	return data{a, b, func() {
		a.from, b.from = nil, nil
		train, test = nil, nil
		debug.FreeOSMemory()
	}}, nil
}

// decoded is a dataset of MNIST's form whose pixels are float32, from 0 to 1.
type decoded struct {
	n      int
	fields []dataloader.Field
	from   dataloader.Dataset
	scale  float32
}

func newDecoded(ds dataloader.Dataset) *decoded {
	fields := append([]dataloader.Field{}, ds.Fields()...)
	scale := float32(fields[0].Scale)
	fields[0].Type, fields[0].Scale = arena.Float32, 0
	return &decoded{ds.Len(), fields, ds, scale}
}

// Len returns the number of images.
func (d *decoded) Len() int { return d.n }

// Fields returns pixels and label.
func (d *decoded) Fields() []dataloader.Field { return d.fields }

var errDropped = errors.New("the images were dropped: the device has them")

// Fetch decodes one sample. Its bytes are read into the last quarter of where the floats go: each is read before it is overwritten.
func (d *decoded) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if d.from == nil {
		return errDropped
	}
	x := dataloader.View[float32](dst[0])
	stored := dst[0][3*len(x):]
	if err := d.from.Fetch(ctx, at, [][]byte{stored, dst[1]}); err != nil {
		return err
	}
	for i, v := range stored {
		x[i] = float32(v) * d.scale
	}
	return nil
}

// imageSamples and imageTests are the numbers of w4's images, and of those of them that are evaluated.
const imageSamples, imageTests = 10000, 1000

// loadImages makes normal images with random labels. The first of them are evaluated.
func loadImages(w workload, _ flags) (data, error) {
	r := rand.New(rand.NewPCG(12345, 1))
	size := 1
	for _, d := range w.sample {
		size *= d
	}
	x, y := make([]float32, imageSamples*size), make([]int32, imageSamples)
	normal(r, x)
	for i := range y {
		y[i] = int32(r.IntN(w.classes))
	}
	train, err := dataloader.FromSlices(len(y), dataloader.Column("x", x, w.sample...), dataloader.Column("y", y))
	if err != nil {
		return data{}, fmt.Errorf("random images: %w", err)
	}
	test, err := dataloader.Subset(train, 0, imageTests)
	return data{train, test, func() {}}, err
}

// teacherSamples is the number of w5's samples.
const teacherSamples = 4096

// loadTeacher makes normal rows whose class is what a random linear teacher says. They are evaluated on themselves.
func loadTeacher(w workload, _ flags) (data, error) {
	r := rand.New(rand.NewPCG(12345, 1))
	in := w.sample[0]
	x, y := make([]float32, teacherSamples*in), make([]int32, teacherSamples)
	normal(r, x)
	teacher := make([]float32, in*w.classes)
	normal(r, teacher)
	for i := range y {
		var best float32
		for c := range w.classes {
			var s float32
			for j, v := range x[i*in : (i+1)*in] {
				s += v * teacher[j*w.classes+c]
			}
			if c == 0 || s > best {
				y[i], best = int32(c), s
			}
		}
	}
	ds, err := dataloader.FromSlices(len(y), dataloader.Column("x", x, in), dataloader.Column("y", y))
	if err != nil {
		return data{}, fmt.Errorf("random data: %w", err)
	}
	return data{ds, ds, func() {}}, nil
}

func normal(r *rand.Rand, dst []float32) {
	for i := range dst {
		dst[i] = float32(r.NormFloat64())
	}
}
