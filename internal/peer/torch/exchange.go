package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// batch is the rows of each input in the files.
const batch = 8

// values is a tensor of a file.
type values struct {
	shape  []int
	floats []float32
	ints   []int32 // instead of floats
}

// readValues reads a tensor of float32 or int32.
func readValues(path, name string) (v values, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return v, err
	}
	defer f.Close()
	t, ok := f.Find(name)
	if !ok {
		return v, fmt.Errorf("%s has no tensor %q", path, name)
	}
	b := make([]byte, t.Bytes())
	if err := f.Read(name, b); err != nil {
		return v, err
	}
	v.shape = t.Shape
	for ; len(b) > 0; b = b[4:] {
		if word := binary.LittleEndian.Uint32(b); t.DType == safetensors.Int32 {
			v.ints = append(v.ints, int32(word))
		} else {
			v.floats = append(v.floats, math.Float32frombits(word))
		}
	}
	return v, nil
}

// dataset returns inputs with random targets of rows of size out.
func (v values) dataset(out int) (*dataloader.Slices, error) {
	r := rand.New(rand.NewPCG(1, 0))
	y := make([]float32, v.shape[0]*out)
	for i := range y {
		y[i] = float32(r.NormFloat64())
	}
	x := dataloader.Column("x", v.floats, v.shape[1:]...)
	if v.ints != nil {
		x = dataloader.Column("x", v.ints, v.shape[1:]...)
	}
	return dataloader.FromSlices(v.shape[0], x, dataloader.Column("y", y, out))
}

// open returns a trainer of the net for the data.
func (m net) open(ctx context.Context, dev kernels.Device, data dataloader.Dataset) (*trainer.Trainer, error) {
	return trainer.New(ctx, m.model, trainer.Options{Device: dev, Batch: batch, Optimizer: optim.Adam{Rate: 0.01}, Seed: 5,
		Fields: data.Fields()})
}

// predict returns the outputs of all rows of the data.
func predict(ctx context.Context, t *trainer.Trainer, data dataloader.Dataset) (all []float32, err error) {
	for p, err := range t.Predict(ctx, data) {
		if err != nil {
			return nil, err
		}
		for _, y := range p.Output {
			all = append(all, float32(y))
		}
	}
	return all, nil
}

// compare predicts the data and returns how much the outputs differ from want.
func compare(ctx context.Context, t *trainer.Trainer, data dataloader.Dataset, want []float32) (float64, error) {
	got, err := predict(ctx, t, data)
	if err != nil {
		return 0, err
	}
	return relative(got, want)
}

// relative returns the largest difference of elements, relative to the largest element of want.
func relative(got, want []float32) (float64, error) {
	worst, largest := 0.0, 0.0
	if len(got) != len(want) {
		return 0, fmt.Errorf("%d outputs, want %d", len(got), len(want))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i] - w)); !(d <= worst) { // NaN is worst
			worst = d
		}
		largest = max(largest, math.Abs(float64(w)))
	}
	if largest < 0.1 {
		return 0, fmt.Errorf("the largest of %d outputs is %v: nothing is compared", len(want), largest)
	}
	return worst / largest, nil
}

// readIO reads input and output of a network.
func readIO(dir, name string) (x, y values, err error) {
	path := filepath.Join(dir, name+".io.safetensors")
	if x, err = readValues(path, "x"); err == nil {
		y, err = readValues(path, "y")
	}
	return x, y, err
}

// writeIO writes input and output of a network.
func writeIO(dir, name string, x, y values) (err error) {
	file, err := os.Create(filepath.Join(dir, name+".io.safetensors"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	all := map[string]values{"x": x, "y": y}
	w, err := safetensors.NewWriter(file, []safetensors.Tensor{x.tensor("x"), y.tensor("y")}, nil)
	if err != nil {
		return err
	}
	for _, t := range w.Tensors() {
		var data any = all[t.Name].floats
		if all[t.Name].ints != nil {
			data = all[t.Name].ints
		}
		if err := binary.Write(w, binary.LittleEndian, data); err != nil {
			return err
		}
	}
	return w.Close()
}

// tensor returns the type and shape of v in a file.
func (v values) tensor(name string) safetensors.Tensor {
	t := safetensors.Tensor{Name: name, DType: safetensors.Float32, Shape: v.shape}
	if v.ints != nil {
		t.DType = safetensors.Int32
	}
	return t
}
