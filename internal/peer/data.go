package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// data are the training and the evaluation set of a workload, which may be the same.
type data struct {
	train, test dataloader.Dataset
	drop        func() error // closes the files; call it when the data are on the device
}

// loadMNIST opens the four files.
func loadMNIST(w workload, f flags) (data, error) {
	train, trainErr := openDigits(f.data, "train", w.Sample)
	test, testErr := openDigits(f.data, "t10k", w.Sample)
	d := data{train, test, func() error { return errors.Join(train.close(), test.close()) }}
	if err := errors.Join(trainErr, testErr); err != nil {
		return data{}, errors.Join(err, d.drop())
	}
	train.n, test.n = min(train.n, f.trainN), min(test.n, f.testN)
	return d, nil
}

// pixels is one part of MNIST with pixels in float32, from 0 to 1. Fetch reads each sample from the
// file, so that the host holds no copy of the data.
type pixels struct {
	n      int
	fields []dataloader.Field
	images *os.File
	labels []byte
}

// headerBytes is the size of the header: a magic number and three dimensions.
const headerBytes = 16

// openDigits opens the plain files of a part.
func openDigits(dir, part string, sample []int) (*pixels, error) {
	labels, err := dataloader.OpenIDX(filepath.Join(dir, part+"-labels-idx1-ubyte"), 0)
	if err != nil {
		return nil, err
	}
	d := &pixels{n: labels.Len(), fields: []dataloader.Field{{Name: "x", Type: arena.Float32, Shape: sample}, {Name: "y", Type: arena.Uint8}},
		labels: labels.Data}
	if err := labels.CheckLabels(10); err != nil || labels.Type != arena.Uint8 {
		return nil, errors.Join(err, fmt.Errorf("%s: labels of %v, want uint8 from 0 to 9", labels.File, labels.Type))
	}
	if d.images, err = os.Open(filepath.Join(dir, part+"-images-idx3-ubyte")); err != nil {
		return nil, err
	}
	var header [headerBytes]byte
	if _, err := d.images.ReadAt(header[:], 0); err != nil {
		return d, fmt.Errorf("%s: %w", d.images.Name(), err)
	}
	want := [...]uint32{0x803, uint32(d.n), 28, 28}
	for i, v := range want {
		if got := binary.BigEndian.Uint32(header[4*i:]); got != v {
			return d, fmt.Errorf("%s: the header's word %d is %d, want %d", d.images.Name(), i, got, v)
		}
	}
	return d, nil
}

// close closes the file, if it is open.
func (d *pixels) close() error {
	if d == nil || d.images == nil {
		return nil
	}
	f := d.images
	d.images = nil
	return f.Close()
}

// Len returns the number of images.
func (d *pixels) Len() int { return d.n }

// Fields returns pixels and label.
func (d *pixels) Fields() []dataloader.Field { return d.fields }

// Fetch reads one sample. It reads the bytes into the last quarter of dst[0]: each is decoded
// before a float overwrites it.
func (d *pixels) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	x := dataloader.View[float32](dst[0])
	stored := dst[0][3*len(x):]
	if _, err := d.images.ReadAt(stored, headerBytes+int64(at.Index)*int64(len(x))); err != nil {
		return err
	}
	for i, v := range stored {
		x[i] = float32(v) / 255
	}
	dst[1][0] = d.labels[at.Index]
	return nil
}

// imageSamples is the number of w4's images, imageTests the number of those in the evaluation.
const imageSamples, imageTests = 10000, 1000

// loadImages returns normal random images with random labels. The first of them are the evaluation set.
func loadImages(w workload, f flags) (data, error) {
	train := &noise{n: imageSamples / f.shrink, classes: w.Classes,
		fields: []dataloader.Field{{Name: "x", Type: arena.Float32, Shape: w.Sample}, {Name: "y", Type: arena.Int32}}}
	test, err := dataloader.Subset(train, 0, imageTests/f.shrink)
	return data{train, test, func() error { return nil }}, err
}

// noise is a dataset of random samples. Each depends only on its index; the host holds no copy of
// the data.
type noise struct {
	n, classes int
	fields     []dataloader.Field
}

// Len returns the number of samples.
func (d *noise) Len() int { return d.n }

// Fields returns elements and label.
func (d *noise) Fields() []dataloader.Field { return d.fields }

// Fetch draws one sample.
func (d *noise) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	r := rand.New(rand.NewPCG(12345, uint64(at.Index)))
	normal(r, dataloader.View[float32](dst[0]))
	dataloader.View[int32](dst[1])[0] = int32(r.IntN(d.classes))
	return nil
}

// teacherSamples is the number of w5's samples.
const teacherSamples = 4096

// loadTeacher returns normal random rows, classified by a random linear model. Training and
// evaluation set are the same.
func loadTeacher(w workload, _ flags) (data, error) {
	r := rand.New(rand.NewPCG(12345, 1))
	in := w.Sample[0]
	x, y := make([]float32, teacherSamples*in), make([]int32, teacherSamples)
	normal(r, x)
	teacher := make([]float32, in*w.Classes)
	normal(r, teacher)
	for i := range y {
		var best float32
		for c := range w.Classes {
			var s float32
			for j, v := range x[i*in : (i+1)*in] {
				s += v * teacher[j*w.Classes+c]
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
	return data{ds, ds, func() error { return nil }}, nil
}

// normal fills dst with normal draws.
func normal(r *rand.Rand, dst []float32) {
	for i := range dst {
		dst[i] = float32(r.NormFloat64())
	}
}
