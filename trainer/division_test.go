package trainer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// share divides two fields of integers, and classifies the quotients.
func share(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	a, b := net.Indices("a", batch, 3), net.Indices("b", batch, 3)
	parts := gorgonia.Must(gorgonia.HadamardDiv(a, b))
	gorgonia.WithName("share/parts")(parts)
	return net.Classifier(a, net.Dense(net.Cast(parts, "floats", tensor.Float32), "out", 2, nil))
}

func TestADivisionByZeroStopsTheStepAndNamesItsSample(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		data := func(last uint8) *dataloader.Slices {
			return columns(t, 4, dataloader.Column("a", []uint8{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 9, 8}, 3),
				dataloader.Column("b", []uint8{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, last, 6}, 3), dataloader.Column("y", []uint8{0, 1, 0, 1}))
		}
		good, bad := data(5), data(0)
		tr := made(t, share, trainer.Options{Device: dev, Batch: 2, Fields: good.Fields(), Optimizer: optim.SGD{Rate: 0.01}, Sequential: true})
		fit(t, tr, good)
		before := tr.Stats().Updates
		check := func(what string, err error) {
			t.Helper()
			var e *trainer.DivisionError
			if !errors.As(err, &e) || !errors.Is(err, trainer.ErrDivision) || e.Sample != 3 || e.At != 1 || e.Field != "b" || e.Node != "share/parts" {
				t.Errorf("%s: got %v, want a DivisionError of sample 3, field b, element 1", what, err)
			}
		}
		_, err := tr.Fit(context.Background(), bad)
		check("Fit", err)
		if err == nil || !strings.Contains(err.Error(), "step 1") {
			t.Errorf("got %v, want step 1 in it", err)
		}
		for _, err = range tr.Predict(context.Background(), bad) {
		}
		check("Predict", err)
		_, err = tr.Evaluate(context.Background(), bad)
		check("Evaluate", err)
		if got := tr.Stats().Updates - before; got != 1 {
			t.Errorf("%d updates, want that of the first batch", got)
		}
		fit(t, tr, good)
		evaluate(t, tr, good)
	})
}

// Rows that fill a batch up divide by what the first row divides by: a predictor's callers see
// divisions of their own rows only.
func TestADivisionByZeroIsTheErrorOfItsCallerOnly(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		field := func(name string) dataloader.Field { return dataloader.Column(name, []int32{}, 3).Field }
		p := predictor(t, share, trainer.PredictorOptions{Device: dev, Batch: 4, Sizes: []int{4}, Fields: []dataloader.Field{field("a"), field("b")}})
		ctx := t.Context()
		for range 2 {
			if err := p.Predict(ctx, make([]float32, 2), []int32{6, 5, 4}, []int32{3, 2, 1}); err != nil {
				t.Fatal(err)
			}
			err := p.Predict(ctx, make([]float32, 4), []int32{6, 5, 4, 3, 2, 1}, []int32{3, 2, 1, 1, 2, 0})
			var e *trainer.DivisionError
			if !errors.As(err, &e) || e.Sample != 1 || e.At != 2 || e.Field != "b" {
				t.Errorf("got %v, want a DivisionError in row 1, field b, element 2", err)
			}
		}
	})
}
