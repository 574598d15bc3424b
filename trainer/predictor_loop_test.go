package trainer_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

func TestAPredictorHasTheOutputsOfTheModel(t *testing.T) {
	more := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := small(g, batch)
		for _, n := range g.AllNodes() {
			if n.Name() == "hidden/act" || n.Name() == "hidden/relu" {
				m.Outputs = append(m.Outputs, n)
			}
		}
		return m, err
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, more, trainer.PredictorOptions{Device: dev, Batch: 4})
		t.Log(p.Outputs())
		x := fieldOf(t, samples(t, 4, 4, 3), 0)
		a, b := make([]float32, 12), make([]float32, 32)
		if err := p.PredictAll(t.Context(), [][]float32{a, b}, x); err != nil {
			t.Fatal(err)
		}
		t.Log(a, b)
		if !slices.Equal(a, predict(t, p, 4, x)) {
			t.Error("differ")
		}
	})
}

func TestLoadsInALoopOverStepsAndBesideIt(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 48, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		n := 0
		all.Go(func() {
			for ctx.Err() == nil {
				if p.Load(ctx, tr) == nil {
					n++
				}
			}
		})
		for range 3 {
			for _, err := range tr.Steps(t.Context(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Load(t.Context(), tr); err != nil {
					t.Fatal(err)
				}
			}
			fit(t, tr, ds)
		}
		stop()
		all.Wait()
		t.Log(n, "loads")
	})
}
