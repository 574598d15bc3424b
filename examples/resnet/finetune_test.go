package main

import (
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/examples/internal/shapes"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A residual network that PyTorch has exported for training learns the shapes with a new head, in
// the bytes that the plan announces. The trunk alone, as it comes from the file, is no better than
// a guess.
func TestAResNetOfPyTorchIsFineTuned(t *testing.T) {
	m, err := onnx.Open("../../onnx/testdata/resnet8.training.onnx", onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, side, side)
		trunk, err := m.Nodes(net.Scope("trunk"), x)
		if err != nil {
			return trainer.Model{}, err
		}
		return net.Classifier(x, net.Dense(trunk[0], "head", classes, nil))
	}
	train, test, err := shapes.Sets(1, 2000, 500)
	if err != nil {
		t.Fatal(err)
	}
	opt := trainer.Options{Device: cputest.OpenChecked(t, cpu.Options{Threads: 2}), Batch: 32, Optimizer: optim.Adam{Rate: 0.003}, Seed: 2, Fields: train.Fields()}
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Device = cputest.OpenChecked(t, cpu.Options{Threads: 2, Memory: plan.Total})
	tr, err := trainer.New(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	accuracy := func() float64 {
		r, err := tr.Evaluate(t.Context(), test)
		if err != nil {
			t.Fatal(err)
		}
		return r.Accuracy
	}
	before := accuracy()
	for range 2 {
		if _, err := tr.Fit(t.Context(), train); err != nil {
			t.Fatal(err)
		}
	}
	if after := accuracy(); before > 0.2 || after < before+0.15 {
		t.Errorf("accuracy %v before, %v after 2 epochs of 2000 images", before, after)
	} else {
		t.Logf("%d bytes: accuracy %v before, %v after 2 epochs of 2000 images", plan.Total, before, after)
	}
}
