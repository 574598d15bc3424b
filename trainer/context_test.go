package trainer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// A context that ends after the last batch was read ends nothing: the result is complete.
func TestAContextThatEndsWithTheLastStepIsNoError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		data := samples(t, 10, 4, 3)
		var stop func() // called after the last step
		opt := trainer.Options{Device: dev, Batch: 4, Fields: data.Fields(), Resident: []dataloader.Dataset{data}}
		opt.Progress = func(p trainer.Progress) {
			if p.Step == p.Steps {
				stop()
			}
		}
		tr := made(t, small, opt)
		for what, ds := range map[string]dataloader.Dataset{"resident": data, "streamed": &faulty{Dataset: data}} {
			for name, pass := range map[string]func(context.Context, dataloader.Dataset) (trainer.Result, error){"Fit": tr.Fit, "Evaluate": tr.Evaluate} {
				ctx, cancel := context.WithCancel(context.Background())
				stop = cancel
				res, err := pass(ctx, ds)
				if err != nil || res.Samples != 10 || res.Steps != 3 || ctx.Err() == nil {
					t.Errorf("%s, %s: %+v, %v, want 10 samples in 3 steps and no error", what, name, res, err)
				}
				cancel()
			}
			ctx, cancel := context.WithCancel(context.Background())
			n := 0
			for p, err := range tr.Predict(ctx, ds) {
				if err != nil {
					t.Errorf("%s, Predict: %v after %d samples", what, err, n)
				}
				if n++; p.Sample == 8 { // the first of the last batch
					cancel()
				}
			}
			if n != 10 || ctx.Err() == nil {
				t.Errorf("%s, Predict: %d samples, want 10", what, n)
			}
			cancel()
		}
	})
}

// A context that ends before that ends the pass.
func TestAContextThatEndsBeforeTheLastBatchIsAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		var stop func()
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Progress: func(trainer.Progress) { stop() }})
		for name, pass := range map[string]func(context.Context, dataloader.Dataset) (trainer.Result, error){"Fit": tr.Fit, "Evaluate": tr.Evaluate} {
			ctx, cancel := context.WithCancel(context.Background())
			stop = cancel
			if res, err := pass(ctx, ds); !errors.Is(err, context.Canceled) || res.Samples >= 40 {
				t.Errorf("%s: %d samples, %v, want an error before the last of 40", name, res.Samples, err)
			}
			cancel()
		}
	})
}
