package trainer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// tiny returns a trainer of 16-32-4 with SGD at batch 16 on n resident samples, so that the cost of a step apart from its arithmetic shows.
func tiny(b *testing.B, n int) (*trainer.Trainer, dataloader.Dataset) {
	b.Helper()
	ds := samples(b, n, 16, 4)
	dev := cputest.Open(b, cpu.Options{Threads: 2})
	t, err := trainer.New(b.Context(), classifier(16, 32, 4), trainer.Options{Device: dev, Batch: 16, Optimizer: optim.SGD{Rate: 0.1},
		Resident: []dataloader.Dataset{ds}, Tail: dataloader.DropTail})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		t.Close()
		dev.Close()
	})
	return t, ds
}

// BenchmarkStep runs epochs of 256 steps of a very small net. One op is one step.
func BenchmarkStep(b *testing.B) {
	for _, mode := range []string{"train", "evaluate"} {
		b.Run(mode, func(b *testing.B) {
			t, ds := tiny(b, 4096)
			pass := t.Fit
			if mode == "evaluate" {
				pass = t.Evaluate
			}
			ctx, left := context.Background(), 0
			b.ReportAllocs()
			for b.Loop() {
				if left == 0 {
					res, err := pass(ctx, ds)
					if err != nil {
						b.Fatal(err)
					}
					left = res.Steps
				}
				left--
			}
		})
	}
}

// BenchmarkPass runs epochs of one step, and of 256: the cost of an epoch apart from its steps is the difference, less that of the shuffle.
func BenchmarkPass(b *testing.B) {
	for _, steps := range []int{1, 256} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			t, ds := tiny(b, 16*steps)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Fit(context.Background(), ds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
