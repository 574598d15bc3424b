package trainer_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A loop over Steps has a step for each objective of a batch and the bits of Fit, also if its body uses the slots
// between two steps of one batch. So have steps on batches of the caller.
func TestStepsOfObjectivesLearnWhatFitLearns(t *testing.T) {
	for name, opt := range map[string]trainer.Options{
		"plain": {}, "kept": {Keep: []string{"a/loss", "b/loss"}}, "windows": {Accumulate: 2},
		"scaled": {LossScale: optim.Scaling{Mode: optim.ScaleAlways}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				const batch, batches = 6, 4
				ds := samples(t, batch*batches, 4, 3)
				opt := opt
				opt.Device, opt.Batch, opt.Fields, opt.Sequential, opt.Optimizer, opt.Seed = dev, batch, ds.Fields(), true, optim.Adam{}, 9
				opt.Objectives = []trainer.Objective{{Name: "b", Optimizer: optim.Lion{}, Every: 2}}
				fitted, looped, own := made(t, rivals, opt), made(t, rivals, opt), made(t, rivals, opt)
				for epoch := range 2 {
					res := fit(t, fitted, ds)
					steps := stepsWithUses(t, looped, ds)
					if len(steps) != res.Losses[0].Steps+res.Losses[1].Steps {
						t.Fatalf("%d steps, want those of %+v", len(steps), res.Losses)
					}
					for i, want := range steps {
						if want.Number != int64(epoch*len(steps)+i+1) {
							t.Errorf("step %d has number %d", i, want.Number)
						}
						got, err := own.Step(t.Context(), trainer.Batch{Objective: want.Objective, Rows: batch, Fill: fillFrom(t, ds, (want.Step-1)*batch)})
						if err != nil {
							t.Fatal(err)
						}
						if got.Loss != want.Loss || got.Number != want.Number || got.Objective != want.Objective || got.Updated != want.Updated {
							t.Errorf("step %+v, want %+v", got, want)
						}
					}
				}
				want := learned(t, fitted)
				if d := differing(learned(t, looped), want); len(d) > 0 {
					t.Errorf("by Steps, %q differ", d)
				}
				if d := differing(learned(t, own), want); len(d) > 0 {
					t.Errorf("by Step, %q differ", d)
				}
				_, err := own.Step(t.Context(), trainer.Batch{Objective: "c", Rows: batch, Fill: fillFrom(t, ds, 0)})
				if !errors.Is(err, trainer.ErrOption) {
					t.Errorf("another objective: got %v, want ErrOption", err)
				}
			})
		})
	}
}

// stepsWithUses trains an epoch by Steps, with a body that evaluates or predicts, and returns the steps.
func stepsWithUses(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset) (steps []trainer.Step) {
	t.Helper()
	for step, err := range tr.Steps(t.Context(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		if steps = append(steps, step); len(steps)%3 == 0 {
			evaluate(t, tr, ds)
		} else if len(steps)%3 == 1 {
			outputs(t, tr, ds)
		}
		if err := tr.Unfreeze(t.Context()); err == nil {
			t.Error("Unfreeze in the body has no error")
		}
	}
	return steps
}

// fillFrom writes the samples from first on.
func fillFrom(t *testing.T, ds *dataloader.Slices, first int) func(trainer.Fields) error {
	return func(f trainer.Fields) error {
		x, y := f.Bytes("x"), f.Bytes("y")
		for row := range f.Rows() {
			if err := ds.Fetch(t.Context(), dataloader.At{Index: first + row}, [][]byte{x[16*row : 16*row+16], y[row : row+1]}); err != nil {
				return fmt.Errorf("row %d: %w", row, err)
			}
		}
		return nil
	}
}
