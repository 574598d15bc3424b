package weights_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/weights"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// recurrent classifies sequences [batch, 4, 3].
func recurrent(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x := n.Input("x", batch, 4, 3)
	_, last := n.GRU(x, "rnn", layers.Recurrent{Units: 5})
	return n.Classifier(x, n.Dense(n.BatchNorm(last, "norm", nil), "head", 2, nil))
}

// sequences are two samples for recurrent.
func sequences() *dataloader.Slices {
	x := dataloader.Column("x", make([]float32, 2*12), 4, 3)
	data, err := dataloader.FromSlices(2, x, dataloader.Column("y", []uint8{0, 1}))
	if err != nil {
		log.Fatal(err)
	}
	return data
}

// openedRecurrent returns a trainer of recurrent that is closed at the end of the test.
func openedRecurrent(t *testing.T, seed uint64) *trainer.Trainer {
	t.Helper()
	return made(t, recurrent, trainer.Options{Device: devices["cpu"](t), Batch: 2, Seed: seed, Fields: sequences().Fields()})
}

// list prints the tensors of a file.
func list(path string) {
	f, err := safetensors.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, tensor := range f.Tensors() {
		fmt.Println(tensor.Name, tensor)
	}
}

// A file for PyTorch is loaded into another trainer, bit for bit, and the report has all its names.
func TestFilesForPyTorchAreLoadedWithAReport(t *testing.T) {
	a, b := openedRecurrent(t, 1), openedRecurrent(t, 2)
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := weights.Save(t.Context(), path, a, weights.SaveOptions{Rules: weights.Torch()}); err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Load(t.Context(), path, b, weights.LoadOptions{}); !errors.Is(err, trainer.ErrData) {
		t.Errorf("without rules: got %v", err)
	}
	report, err := weights.Load(t.Context(), path, b, weights.LoadOptions{Rules: weights.Torch(), Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Loaded) != len(a.Weights()) || !slices.Equal(report.Dropped, []string{"norm.num_batches_tracked"}) || report.LeftOver != nil {
		t.Errorf("report %+v", report)
	}
	if !strings.Contains(report.String(), "dropped 1: norm.num_batches_tracked") {
		t.Errorf("report %q", report)
	}
	if d := differing(values(t, a), values(t, b)); d != nil {
		t.Errorf("%q differ", d)
	}
}

func TestAllThatDoesNotFitPyTorchsFileIsOneError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := safetensors.NewWriter(file, []safetensors.Tensor{
		{Name: "head.weight", DType: safetensors.Float32, Shape: []int{5, 2}},
		{Name: "rnn.weight_ih_l0", DType: safetensors.Int8, Shape: []int{15, 3}},
		{Name: "other", DType: safetensors.Float32, Shape: []int{1}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4*10+45+4)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	tr := openedRecurrent(t, 1)
	before := values(t, tr)
	_, err = weights.Load(t.Context(), path, tr, weights.LoadOptions{Rules: weights.Torch(), Exact: true})
	var bad *trainer.WeightsError
	if !errors.As(err, &bad) || len(bad.Other) != 2 || len(bad.Missing) != len(tr.Weights())-2 || !slices.Equal(bad.Extra, []string{"other"}) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`"head/w" is head.weight F32 [5 2] in the source, and must be F32 [2 5]`, "rnn/b (rnn.bias_ih_l0", `"other"`, "I8"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if d := differing(values(t, tr), before); d != nil {
		t.Errorf("%q were changed", d)
	}
}

func TestPicklesAreNotLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.pth")
	if err := os.WriteFile(path, []byte("\x80\x02\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := weights.Load(t.Context(), path, openedRecurrent(t, 1), weights.LoadOptions{Rules: weights.Torch()})
	if !errors.Is(err, weights.ErrPickle) || !strings.Contains(err.Error(), "save_file") {
		t.Errorf("got %v", err)
	}
}

func ExampleTorch() {
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	t, closeT := openModel(recurrent, sequences(), 1)
	defer closeT()
	path := filepath.Join(dir, "model.safetensors")
	if err := weights.Save(ctx, path, t, weights.SaveOptions{Rules: weights.Torch()}); err != nil {
		log.Fatal(err)
	}
	list(path)
	if _, err := weights.Load(ctx, path, t, weights.LoadOptions{Rules: weights.Torch()}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// norm.num_batches_tracked I64 []
	// head.bias F32 [2]
	// head.weight F32 [2 5]
	// norm.bias F32 [5]
	// norm.running_mean F32 [5]
	// norm.running_var F32 [5]
	// norm.weight F32 [5]
	// rnn.bias_hh_l0 F32 [15]
	// rnn.bias_ih_l0 F32 [15]
	// rnn.weight_hh_l0 F32 [15 5]
	// rnn.weight_ih_l0 F32 [15 3]
}

// The head alone is saved, under another name and in bfloat16.
func ExampleRule() {
	rules := weights.Torch()
	rules.List = slices.Insert(rules.List, 0,
		weights.Rule{Ours: "head/w", File: "classifier.1.weight", Transpose: true},
		weights.Rule{Ours: "head/b", File: "classifier.1.bias"})
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	t, closeT := openModel(recurrent, sequences(), 1)
	defer closeT()
	path := filepath.Join(dir, "head.safetensors")
	if err := weights.Save(ctx, path, t, weights.SaveOptions{Rules: rules, Only: []string{"head"}, DType: safetensors.BFloat16}); err != nil {
		log.Fatal(err)
	}
	list(path)
	// Output:
	// classifier.1.bias BF16 [2]
	// classifier.1.weight BF16 [2 5]
}
