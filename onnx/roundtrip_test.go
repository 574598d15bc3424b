package onnx_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/onnxmodels"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/onnxtest"
	"github.com/evenkeel/evenkeel/trainer"
)

// TestExportedModelsAreImportedAgain exports each model, imports the file, and compares predictions
// of both with random weights. internal/peer/onnxout runs the same files in onnxruntime.
func TestExportedModelsAreImportedAgain(t *testing.T) {
	dev := cputest.Open(t, cpu.Options{})
	for _, m := range onnxmodels.All() {
		if m.Mixes { // no predictor takes it
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			before, sizes := predictor(t, m.Build, dev, m), map[string]int{}
			for _, w := range before.Weights() {
				sizes[w.Name] = w.Spec.Shape.Elems()
			}
			values := func(name string) []float32 {
				if sizes[name] == 0 {
					return nil
				}
				return onnxmodels.Weights(name, sizes[name])
			}
			if err := before.LoadWeights(t.Context(), values); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := onnx.Export(t.Context(), &b, m.Build, onnx.ExportOptions{Values: values, Fields: m.Fields}); err != nil {
				t.Fatal(err)
			}
			file, err := onnx.Parse(b.Bytes(), onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m.Fields = nil // the file decodes
			compare(t, before, predictor(t, file.Build, dev, m), m.Classes)
		})
	}
}

// Every model of PyTorch is exported again as it was imported, and predicts the same.
func TestImportedModelsAreExported(t *testing.T) {
	dev := cputest.Open(t, cpu.Options{})
	for _, file := range fixtures(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m, err := onnx.Open(file, onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			again, recorded := filepath.Join(t.TempDir(), "m"), strings.TrimSuffix(file, ".onnx")
			if err := os.CopyFS(again, os.DirFS(recorded)); err != nil {
				t.Fatal(err)
			}
			if _, err := onnx.ExportFile(t.Context(), again+".onnx", m.Build, onnx.ExportOptions{Batch: m.Batch()}); err != nil {
				t.Fatal(err)
			}
			r, err := onnxtest.Compare(t.Context(), again+".onnx", onnx.Options{}, dev)
			if err != nil || !(r.Error <= 1e-5) || r.Largest < 0.1 {
				t.Errorf("error %.1e of outputs up to %v: %v", r.Error, r.Largest, err)
			}
		})
	}
}

func predictor(t *testing.T, model trainer.ModelFunc, dev kernels.Device, m onnxmodels.Model) *trainer.Predictor {
	t.Helper()
	p, err := trainer.NewPredictor(t.Context(), model, trainer.PredictorOptions{Device: dev, Batch: 5, Fields: m.Fields})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// compare compares the outputs of two predictors for 5 and for 2 rows.
func compare(t *testing.T, a, b *trainer.Predictor, classes int) {
	t.Helper()
	largest, worst := 0.0, 0.0
	for _, rows := range []int{5, 2} {
		r := rand.New(rand.NewPCG(uint64(rows), 4))
		given := map[string][]float64{}
		for _, in := range a.Inputs() {
			for range rows * in.Spec.Shape.Elems() {
				x := float64(float32(r.NormFloat64()))
				if !in.Spec.Type.Float() {
					x = float64(r.IntN(max(classes, 1)))
				}
				given[in.Name] = append(given[in.Name], x)
			}
		}
		got := [2][][]float32{}
		for i, p := range []*trainer.Predictor{a, b} {
			var inputs []any
			for _, in := range p.Inputs() {
				inputs = append(inputs, elements(given[in.Name], in.Spec.Type))
			}
			for _, out := range p.Outputs() {
				got[i] = append(got[i], make([]float32, rows*out.Spec.Shape.Elems()))
			}
			if err := p.PredictAll(t.Context(), got[i], inputs...); err != nil {
				t.Fatal(err)
			}
		}
		for i, out := range got[0] {
			for k, x := range out {
				largest = max(largest, math.Abs(float64(x)))
				worst = max(worst, math.Abs(float64(x)-float64(got[1][i][k])))
			}
		}
	}
	if !(worst <= 1e-5*largest) || largest == 0 {
		t.Errorf("outputs differ by %.3g, the largest is %.3g", worst, largest)
	}
}

// elements returns numbers as a predictor takes them.
func elements(xs []float64, t arena.DType) any {
	switch t {
	case arena.Float32:
		return view[float32](xs)
	case arena.Float64:
		return view[float64](xs)
	case arena.Uint8:
		return view[uint8](xs)
	case arena.Int32:
		return view[int32](xs)
	}
	return view[int64](xs)
}

func view[T float32 | float64 | uint8 | int32 | int64](xs []float64) []T {
	ys := make([]T, len(xs))
	for i, x := range xs {
		ys[i] = T(x)
	}
	return ys
}
