package nets_test

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
)

// TestStepsOfSmallNetsAllocateNothing counts heap objects from the end of step 2 to the end of the pass.
func TestStepsOfSmallNetsAllocateNothing(t *testing.T) {
	const steps = 8
	for _, n := range nets.Small() {
		t.Run(n.Name, func(t *testing.T) {
			ds, err := n.Data(steps*n.Batch, 1)
			if err != nil {
				t.Fatal(err)
			}
			var first, last runtime.MemStats
			dev := cputest.Open(t, cpu.Options{Threads: 2})
			opt := trainer.Options{Device: dev, Batch: n.Batch, Fields: ds.Fields()}
			opt.Progress = func(p trainer.Progress) {
				switch p.Step {
				case 2:
					runtime.ReadMemStats(&first)
				case steps:
					runtime.ReadMemStats(&last)
				}
			}
			tr, err := trainer.New(t.Context(), n.Model, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			ctx := context.Background()
			for name, pass := range map[string]func() error{
				"train":    func() error { _, err := tr.Fit(ctx, ds); return err },
				"evaluate": func() error { _, err := tr.Evaluate(ctx, ds); return err },
			} {
				least := uint64(1 << 62) // the Go runtime itself allocates now and then
				for range 6 {
					if err := pass(); err != nil {
						t.Fatal(err)
					}
					least = min(least, last.Mallocs-first.Mallocs)
				}
				if least != 0 {
					t.Errorf("%s: %d heap objects in %d steps, want 0", name, least, steps-2)
				}
			}
			if err := errors.Join(tr.Close(), dev.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
