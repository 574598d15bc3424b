// Package onnxtest predicts with models that testdata/export.py has exported, and compares the
// results with those that onnxruntime computed.
package onnxtest

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// A Result is what a comparison found.
type Result struct {
	Model   *onnx.Model
	Bytes   int64   // of device memory that the plan announces
	Rows    int     // of the batch
	Largest float64 // largest output of onnxruntime
	Error   float64 // largest difference, as a part of the largest element of that output
}

// Compare imports the model at path, predicts the recorded rows on dev, and compares each output.
func Compare(ctx context.Context, path string, opt onnx.Options, dev kernels.Device) (r Result, err error) {
	if r.Model, err = onnx.Open(path, opt); err != nil {
		return r, err
	}
	folder := strings.TrimSuffix(path, ".onnx")
	var inputs []any
	for k, in := range r.Model.Inputs() {
		t, err := Read(filepath.Join(folder, fmt.Sprintf("input_%d.pb", k)))
		if err != nil {
			return r, err
		}
		r.Rows = int(t.Dims[0])
		inputs = append(inputs, Elements(t, in.Spec))
	}
	po := trainer.PredictorOptions{Device: dev, Batch: r.Rows, Sizes: []int{r.Rows}}
	plan, err := trainer.PlanPredictor(ctx, r.Model.Build, po)
	if err != nil {
		return r, err
	}
	r.Bytes = plan.Total
	po.Memory = plan.Total
	p, err := trainer.NewPredictor(ctx, r.Model.Build, po)
	if err != nil {
		return r, err
	}
	defer p.Close()
	var got [][]float32
	for _, o := range p.Outputs() {
		got = append(got, make([]float32, r.Rows*o.Spec.Shape.Elems()))
	}
	if err := p.PredictAll(ctx, got, inputs...); err != nil {
		return r, err
	}
	for k := range got {
		want, err := Read(filepath.Join(folder, fmt.Sprintf("output_%d.pb", k)))
		if err != nil {
			return r, err
		}
		if n, _ := want.Elements(); int(n) != len(got[k]) {
			return r, fmt.Errorf("output %d has %d elements, want %d", k, len(got[k]), n)
		}
		largest, worst := 0.0, 0.0
		for i, g := range got[k] {
			w := want.Float64(i)
			largest = max(largest, math.Abs(w))
			if d := math.Abs(w - float64(g)); !(d <= worst) { // NaN is worse than all
				worst = d
			}
		}
		r.Largest = max(r.Largest, largest)
		if e := worst / largest; !(e <= r.Error) {
			r.Error = e
		}
	}
	return r, nil
}

// Read reads a file of one tensor.
func Read(name string) (*proto.Tensor, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := proto.ParseTensor(b)
	if err == nil {
		err = t.Check()
	}
	return t, err
}

// Elements returns the elements of a tensor as a slice for Predict: of int64 or of float32.
func Elements(t *proto.Tensor, as kernels.Spec) any {
	n, _ := t.Elements()
	if as.Type.Float() {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(t.Float64(i))
		}
		return x
	}
	x := make([]int64, n)
	for i := range x {
		x[i] = t.Int64(i)
	}
	return x
}
