package onnx_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// classifier is small with a loss.
func classifier(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x := n.Input("x", batch, 6)
	h := n.BatchNorm(n.Dense(x, "hidden", 5, nil), "norm", layers.ReLU)
	return n.Classifier(x, n.Dense(n.Dropout(h, "dropout", 0.3), "out", 3, nil))
}

// samples are 8 rows for classifier.
func samples() (dataloader.Dataset, error) {
	x, y := make([]float32, 8*6), make([]int32, 8)
	for i := range x {
		x[i] = float32(i*i%17) / 17
	}
	for i := range y {
		y[i] = int32(i % 3)
	}
	return dataloader.FromSlices(8, dataloader.Column("x", x, 6), dataloader.Column("y", y))
}

func TestExportWritesTheWeightsOfATrainer(t *testing.T) {
	data, err := samples()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trainer.New(t.Context(), classifier, trainer.Options{Device: cputest.Open(t, cpu.Options{}), Batch: 4, Fields: data.Fields(),
		Optimizer: optim.Adam{Rate: 0.05}, Average: optim.Average{Decay: 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Fit(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	for name, weights := range map[string]onnx.Weights{"the trainer": tr, "its averages": tr.Averaged()} {
		params, err := weights.Params()
		if err != nil {
			t.Fatal(err)
		}
		m, done := exported(t, classifier, onnx.ExportOptions{Weights: weights})
		found := 0
		for _, p := range params {
			want := make([]byte, p.Spec.Bytes())
			if err := p.Read(want); err != nil {
				t.Fatal(err)
			}
			for _, x := range m.Graph.Initializers {
				if x.Name == p.Name {
					if found++; !bytes.Equal(x.Raw, want) {
						t.Errorf("%s: %q is not as trained", name, p.Name)
					}
				}
			}
		}
		if found != 8 || len(done.Weights) != found {
			t.Errorf("%s: %d of %d weights found", name, found, len(done.Weights))
		}
	}
}

func ExampleExport() {
	ctx := context.Background()
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		return net.Classifier(x, net.Dense(net.Dense(x, "hidden", 8, layers.ReLU), "out", 3, nil))
	}
	var file bytes.Buffer                                                    // ExportFile writes to a path
	done, err := onnx.Export(ctx, &file, model, onnx.ExportOptions{Seed: 1}) // Weights: t for a trainer t
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Nodes, "nodes:", done.Operators)
	for _, w := range done.Weights {
		fmt.Println(w.Name, w.Spec)
	}
	fmt.Println(int64(file.Len()) == done.Bytes)
	// Output:
	// 3 nodes: [Gemm Relu]
	// hidden/w float32 (4, 8)
	// hidden/b float32 (8)
	// out/w float32 (8, 3)
	// out/b float32 (3)
	// true
}
