package trainer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A caller tests for a class of errors with the sentinel of any package.
func TestOneSentinelAClassOfErrors(t *testing.T) {
	t.Parallel()
	for name, same := range map[string][]error{
		"busy":   {trainer.ErrBusy, dataloader.ErrBusy, arena.ErrBusy},
		"closed": {trainer.ErrClosed, dataloader.ErrClosed, arena.ErrClosed},
		"option": {trainer.ErrOption, dataloader.ErrOption, optim.ErrOption, arena.ErrOption},
	} {
		for _, one := range same {
			for _, other := range same {
				if !errors.Is(one, other) {
					t.Errorf("%s: %q and %q are two sentinels", name, one, other)
				}
			}
		}
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8, 4, 3)
		var tr *trainer.Trainer
		tr = made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Progress: func(trainer.Progress) {
			if err := tr.Close(); !errors.Is(err, dataloader.ErrBusy) {
				t.Errorf("close during a pass: got %v, want dataloader.ErrBusy", err)
			}
		}})
		fit(t, tr, ds)
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), ds); !errors.Is(err, arena.ErrClosed) {
			t.Errorf("fit after Close: got %v, want arena.ErrClosed", err)
		}
	})
}

func TestANilContextIsRefused(t *testing.T) {
	t.Parallel()
	var none context.Context
	ds := samples(t, 8, 4, 3)
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 4, Fields: ds.Fields()})
	opt := trainer.Options{Batch: 4, Memory: 1 << 20}
	for name, call := range map[string]func() error{
		"New":      func() error { _, err := trainer.New(none, small, opt); return err },
		"Plan":     func() error { _, err := trainer.Plan(none, small, opt); return err },
		"MaxBatch": func() error { _, err := trainer.MaxBatch(none, small, opt, 8); return err },
		"Explore":  func() error { _, err := trainer.Explore(none, small, opt, trainer.ExploreOptions{}); return err },
		"Fit":      func() error { _, err := tr.Fit(none, ds); return err },
		"Evaluate": func() error { _, err := tr.Evaluate(none, ds); return err },
		"Predict": func() error {
			for _, err := range tr.Predict(none, ds) {
				return err
			}
			return nil
		},
	} {
		if err := call(); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%s: got %v, want ErrOption", name, err)
		}
	}
}

// A done context ends what plans, before anything is allocated.
func TestADoneContextEndsPlanning(t *testing.T) {
	t.Parallel()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	opt := trainer.Options{Device: openCPU(t), Batch: 4, Memory: 1 << 20}
	for name, call := range map[string]func() error{
		"New":      func() error { _, err := trainer.New(done, small, opt); return err },
		"Plan":     func() error { _, err := trainer.Plan(done, small, opt); return err },
		"MaxBatch": func() error { _, err := trainer.MaxBatch(done, small, opt, 8); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled", name, err)
		}
	}
}
