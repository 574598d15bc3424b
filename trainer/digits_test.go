package trainer_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestTheNetOfTheExampleTrainsInItsPlanAndIsRefusedOneByteBelow does so at full size: 784-512-256-10, Adam, batch 128.
func TestTheNetOfTheExampleTrainsInItsPlanAndIsRefusedOneByteBelow(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := pixels(t, 3*128+17)
		if dev.Name() == "emu" { // which takes seconds for a batch
			ds = pixels(t, 128+17)
		}
		opt := trainer.Options{Device: dev, Batch: 128, Optimizer: optim.Adam{}, Fields: ds.Fields()}
		plan, err := trainer.Plan(t.Context(), digits, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Memory = plan.Total
		tr := made(t, digits, opt)
		before := evaluate(t, tr, ds).Loss
		for range 2 {
			fit(t, tr, ds)
		}
		if after := evaluate(t, tr, ds).Loss; !(after < before) {
			t.Errorf("loss %v, %v before training", after, before)
		}
		if got := tr.Stats().Arena; got.Reserved != plan.Total || got.InUse > plan.Total {
			t.Errorf("%d bytes reserved, %d in use, planned %d", got.Reserved, got.InUse, plan.Total)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		opt.Memory--
		_, err = trainer.New(t.Context(), digits, opt)
		var e *trainer.CapacityError
		if !errors.As(err, &e) || !errors.Is(err, arena.ErrCapacity) || e.Need != plan.Total || e.Have != plan.Total-1 || e.Fits < 1 || e.Fits >= 128 {
			t.Fatalf("one byte below the plan: got %v, want a CapacityError with a batch of 1 to 127 that fits", err)
		}
		opt.Batch = e.Fits
		fit(t, made(t, digits, opt), ds)
	})
}
