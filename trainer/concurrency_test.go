package trainer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
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

// TestAnythingAtOnce calls every method from many goroutines. Each call works, or returns ErrBusy or ErrClosed.
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

// blockPredict starts a prediction of ds and returns when it blocks, which closes blocked. The
// caller closes release.
func blockPredict(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, blocked <-chan struct{}) (done <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- firstError(tr, ds) }()
	select {
	case <-blocked:
	case err := <-end:
		t.Fatalf("the prediction ended before it blocked: %v", err)
	}
	return end
}

// checkOthers calls what must not wait for a prediction that uses the device, and what must be
// refused.
func checkOthers(t *testing.T, tr *trainer.Trainer) {
	t.Helper()
	within(t, 10*time.Second, "calls during a prediction", func() {
		if tr.Plan().Total != tr.Stats().Arena.Reserved {
			t.Error("Plan and Stats differ")
		}
		tr.LossScale()
		if _, err := tr.Params(); err != nil {
			t.Errorf("params: %v", err)
		}
		if _, _, err := tr.Kept("out/w"); !errors.Is(err, arena.ErrStale) {
			t.Errorf("kept: got %v, want ErrStale: no step has run", err)
		}
		if err := tr.Close(); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("close: got %v, want ErrBusy", err)
		}
		done, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := tr.Fit(done, samples(t, 8, 4, 3)); !errors.Is(err, context.Canceled) {
			t.Errorf("fit: got %v, want context.Canceled: it waits for the device", err)
		}
	})
}

func TestAnUploadOfAPredictionBlocksNoOtherCall(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		blocked, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ds := &faulty{samples(t, 8, 4, 3), func(context.Context, dataloader.At) error {
			once.Do(func() { close(blocked) })
			<-release
			return nil
		}}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Keep: []string{"out/w"}, Resident: []dataloader.Dataset{ds}})
		done := blockPredict(t, tr, ds, blocked)
		checkOthers(t, tr)
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestACompilationOfAPredictionBlocksNoOtherCall(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		blocked, release := make(chan struct{}), make(chan struct{})
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			if batch == 3 {
				close(blocked)
				<-release
			}
			return small(g, batch)
		}
		ds := samples(t, 7, 4, 3) // the last batch is of 3
		tr := made(t, model, trainer.Options{Device: dev, Batch: 4, Keep: []string{"out/w"}, Fields: ds.Fields()})
		done := blockPredict(t, tr, ds, blocked)
		checkOthers(t, tr)
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := tr.Stats().Programs; got != 4 {
			t.Errorf("%d programs, want 4: three for full batches, one for the last", got)
		}
	})
}

// A model function may look at its trainer while a pass compiles the program of a short batch.
func TestACompilationOfAPassBlocksNoOtherCall(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		var tr *trainer.Trainer
		seen := 0
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			if tr != nil && batch == 3 {
				seen = tr.Stats().Programs
			}
			return small(g, batch)
		}
		ds := samples(t, 7, 4, 3)
		tr = made(t, model, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		within(t, 10*time.Second, "a pass whose model function calls Stats", func() { fit(t, tr, ds) })
		if seen != 3 {
			t.Errorf("the model function saw %d programs, want 3", seen)
		}
	})
}

// A pass that begins waits for a batch of a prediction, and runs then.
func TestAPassWaitsForABatchOfAPrediction(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		blocked, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ds := &faulty{samples(t, 8, 4, 3), func(context.Context, dataloader.At) error {
			once.Do(func() { close(blocked) })
			<-release
			return nil
		}}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Resident: []dataloader.Dataset{ds}})
		done := blockPredict(t, tr, ds, blocked)
		fitted := make(chan error, 1)
		go func() {
			_, err := tr.Fit(context.Background(), ds)
			fitted <- err
		}()
		close(release)
		if err := <-fitted; err != nil {
			t.Errorf("fit: %v", err)
		}
		if err := <-done; err != nil && !errors.Is(err, trainer.ErrBusy) { // Fit may run before its first batch
			t.Errorf("predict: %v", err)
		}
	})
}
