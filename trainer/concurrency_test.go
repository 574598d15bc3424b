package trainer_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// checkOutputs predicts ds and compares every number. It may be called from any goroutine.
func checkOutputs(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, want []float64) {
	i := 0
	for p, err := range tr.Predict(context.Background(), ds) {
		if err != nil {
			t.Error(err)
			return
		}
		for _, v := range p.Output {
			if v != want[i] {
				t.Errorf("number %d is %v, want %v", i, v, want[i])
				return
			}
			i++
		}
	}
	if i != len(want) {
		t.Errorf("%d numbers, want %d", i, len(want))
	}
}

func TestEightPredictionsAtOnceEqualASerialOne(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 45, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		want := outputs(t, tr, ds)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				checkOutputs(t, tr, ds, want)
			})
		}
		wg.Wait()
	})
}

// TestAnythingAtOnce calls every method from many goroutines. Each call either works or says that the trainer is busy or closed.
func TestAnythingAtOnce(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		sets := []dataloader.Dataset{samples(t, 9, 4, 3), samples(t, 14, 4, 3)}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: sets[0].Fields()})
		fine := func(err error) {
			if err != nil && !errors.Is(err, trainer.ErrBusy) && !errors.Is(err, trainer.ErrClosed) {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for i := range 6 {
			ds := sets[i%2]
			wg.Go(func() {
				for range 4 {
					_, err := tr.Fit(context.Background(), ds)
					fine(err)
					_, err = tr.Evaluate(context.Background(), ds)
					fine(err)
					for _, err := range tr.Predict(context.Background(), ds) {
						fine(err)
					}
					tr.Stats()
					tr.Plan()
				}
				if i == 5 {
					fine(tr.Close())
				}
			})
		}
		wg.Wait()
	})
}

func TestTwoTrainersShareADevice(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Seed: 1}
		alone := made(t, small, opt)
		fit(t, alone, ds)
		want := outputs(t, alone, ds)
		var wg sync.WaitGroup
		for range 3 {
			tr := made(t, small, opt)
			wg.Go(func() {
				if _, err := tr.Fit(context.Background(), ds); err != nil {
					t.Error(err)
				}
				checkOutputs(t, tr, ds, want)
			})
		}
		wg.Wait()
	})
}

func TestPlansAreMadeByManyGoroutinesAtOnce(t *testing.T) {
	want, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 8})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if got, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 8}); err != nil || got.Total != want.Total {
					t.Errorf("%v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}
