package trainer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// A predictor lists and returns Model.Outputs after the output, and Predict returns the output alone.
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
		all := p.Outputs()
		if len(all) != 2 {
			t.Fatalf("outputs %v, want the output and a hidden layer", all)
		}
		x := fieldOf(t, samples(t, 4, 4, 3), 0)
		output, hidden := make([]float32, 4*all[0].Spec.Shape.Elems()), make([]float32, 4*all[1].Spec.Shape.Elems())
		if err := p.PredictAll(t.Context(), [][]float32{output, hidden}, x); err != nil {
			t.Fatal(err)
		}
		if want := predict(t, p, 4, x); !slices.Equal(output, want) {
			t.Errorf("PredictAll has the output %v, Predict %v", output, want)
		}
		if !slices.ContainsFunc(hidden, func(v float32) bool { return v != 0 }) {
			t.Errorf("the hidden layer is %v", hidden)
		}
	})
}

// A predictor loads from the body of a loop over steps and from another goroutine at once, also while Fit runs; afterwards it has the trainer's rows.
func TestLoadsInALoopOverStepsAndBesideIt(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 48, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4})
		ctx, stop := context.WithCancel(t.Context())
		var beside sync.WaitGroup
		defer beside.Wait()
		defer stop()
		loads, first := 0, make(chan struct{})
		loaded := sync.OnceFunc(func() { close(first) })
		beside.Go(func() {
			defer loaded()
			for ctx.Err() == nil {
				if err := p.Load(ctx, tr); err == nil {
					loads++
					loaded()
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("beside: %v", err)
					return
				}
			}
		})
		for range 3 {
			steps := 0
			for _, err := range tr.Steps(t.Context(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Load(t.Context(), tr); err != nil {
					t.Fatal(err)
				}
				if steps++; steps == 1 {
					<-first // the other goroutine loads, too
				}
			}
			if steps != 12 {
				t.Errorf("%d steps, want 12", steps)
			}
			fit(t, tr, ds)
		}
		stop()
		beside.Wait()
		if loads == 0 {
			t.Error("nothing was loaded beside the loop")
		}
		if err := p.Load(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		x := fieldOf(t, samples(t, 48, 4, 3), 0)
		var got []float64
		for row := 0; row < 48; row += 4 {
			for _, v := range predict(t, p, 4, x[row*4:(row+4)*4]) {
				got = append(got, float64(v))
			}
		}
		if want := outputs(t, tr, ds); !slices.Equal(got, want) {
			t.Errorf("predictor %v, trainer %v", got, want)
		}
	})
}
