package trainer_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// spent is a dataset that overwrites its memory as soon as it has handed a sample over, while the batch is on its way to the device.
type spent struct {
	dataloader.Dataset
	x []float64 // that the dataset reads
}

func (d *spent) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	err := d.Dataset.Fetch(ctx, at, dst)
	d.x[at.Index] = 0
	if at.Index%8 == 0 {
		runtime.GC()
	}
	return err
}

// The device computes with what the caller's memory held when a sample was handed over, whatever becomes of that memory afterwards.
func TestTheCallerMayOverwriteWhatItHasHandedOver(t *testing.T) {
	const batch, batches = 4, 40
	whole := func() []float64 {
		x := make([]float64, batch*batches)
		for i := range x {
			x[i] = float64(i/batch + 1) // sums of small whole numbers are exact in float64
		}
		return x
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		t.Run("streamed", func(t *testing.T) {
			x, steps := whole(), 0
			ds := &spent{numbers(t, x...), x}
			tr := made(t, scalar(1), trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(), Workers: 2, Progress: func(p trainer.Progress) {
				steps++
				if got, want := p.Loss*float64(p.Samples), float64(batch*p.Step*(p.Step+1)/2); got != want {
					t.Errorf("after batch %d the device has seen a sum of %v, want %v", p.Step, got, want)
				}
			}})
			evaluate(t, tr, ds)
			if steps != batches {
				t.Errorf("%d batches reported, want %d", steps, batches)
			}
			for i, v := range x {
				if v != 0 {
					t.Fatalf("sample %d was not overwritten", i)
				}
			}
		})
		t.Run("resident", func(t *testing.T) {
			x := whole()
			ds := &spent{numbers(t, x...), x}
			tr := made(t, scalar(1), trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(), Resident: []dataloader.Dataset{ds}})
			for pass := range 2 {
				if got, want := evaluate(t, tr, ds).Loss, float64(batches+1)/2; got != want {
					t.Errorf("pass %d: a mean of %v, want %v", pass, got, want)
				}
			}
		})
	})
}
