package trainer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// faulty is a dataset whose Fetch may be made to misbehave.
type faulty struct {
	dataloader.Dataset
	fetch func(ctx context.Context, at dataloader.At) error // before the sample is read
}

func (f *faulty) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if f.fetch != nil {
		if err := f.fetch(ctx, at); err != nil {
			return err
		}
	}
	return f.Dataset.Fetch(ctx, at, dst)
}

// unchanged demands that f fails and changes no parameter, and that training goes on afterwards.
func unchanged(t *testing.T, tr *trainer.Trainer, good dataloader.Dataset, f func() error) error {
	t.Helper()
	before := kept(t, tr, good, weights...)
	err := f()
	if err == nil {
		t.Fatal("no error")
	}
	for name, b := range kept(t, tr, good, weights...) {
		if string(b) != string(before[name]) {
			t.Errorf("%q has changed, after %v", name, err)
		}
	}
	fit(t, tr, good)
	return err
}

func TestAReadersErrorNamesTheSampleAndTrainingGoesOn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		broken := errors.New("broken file")
		good := samples(t, 12, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Workers: 3, Keep: weights, Sequential: true})
		for name, fetch := range map[string]func(context.Context, dataloader.At) error{
			"error": func(_ context.Context, at dataloader.At) error {
				if at.Index == 2 {
					return broken
				}
				return nil
			},
			"panic": func(_ context.Context, at dataloader.At) error {
				if at.Index == 2 {
					panic(broken)
				}
				return nil
			},
		} {
			ds := &faulty{good, fetch}
			for what, pass := range map[string]func() error{
				"fit":      func() error { _, err := tr.Fit(context.Background(), ds); return err },
				"evaluate": func() error { _, err := tr.Evaluate(context.Background(), ds); return err },
				"predict":  func() error { return firstError(tr, ds) },
			} {
				err := unchanged(t, tr, good, pass)
				var e *dataloader.SampleError
				if !errors.As(err, &e) || e.Index != 2 || !errors.Is(err, broken) {
					t.Errorf("%s, %s: got %v, want the error of sample 2", name, what, err)
				}
			}
		}
	})
}

// firstError predicts until something fails.
func firstError(tr *trainer.Trainer, ds dataloader.Dataset) error {
	for _, err := range tr.Predict(context.Background(), ds) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestAFailedPassCountsTheStepsThatItDid fails in the third batch: two updates are done, also where one was in flight, and count.
func TestAFailedPassCountsTheStepsThatItDid(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := numbers(t, 1, 1, 1, 1, 1)
		bad := &faulty{good, func(_ context.Context, at dataloader.At) error {
			if at.Index == 2 {
				return errors.New("broken")
			}
			return nil
		}}
		tr := made(t, scalar(2), trainer.Options{Device: dev, Batch: 1, Fields: good.Fields(), Sequential: true, Optimizer: optim.Adam{Rate: 0.1}})
		if _, err := tr.Fit(context.Background(), bad); err == nil {
			t.Fatal("no error")
		}
		if n := tr.Stats().Updates; n != 2 {
			t.Errorf("%d updates counted, want 2", n)
		}
		fit(t, tr, good)
		// Adam moves by the rate at each step of a constant gradient, if its step number is right.
		if got, want := weight(t, tr), 2-7*0.1/(1+1e-8); !about(got, want, 1e-12) {
			t.Errorf("w = %.12f, want %.12f", got, want)
		}
		if s := tr.Stats(); s.Updates != 7 || s.Epochs != 2 {
			t.Errorf("%d updates in %d epochs, want 7 in 2", s.Updates, s.Epochs)
		}
	})
}

func TestCancelledPassReturnsAndTheTrainerGoesOn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := samples(t, 40, 4, 3)
		var cancel context.CancelCauseFunc
		enough := errors.New("enough")
		at := 3
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Progress: func(p trainer.Progress) {
			if p.Step == at && cancel != nil {
				cancel(enough)
			}
		}})
		for range 5 {
			var ctx context.Context
			ctx, cancel = context.WithCancelCause(context.Background())
			within(t, 10*time.Second, "a cancelled pass", func() {
				if _, err := tr.Fit(ctx, good); !errors.Is(err, context.Canceled) || !errors.Is(err, enough) {
					t.Errorf("got %v, want the context's error and its cause", err)
				}
			})
			cancel = nil
			if res := fit(t, tr, good); res.Samples != 40 {
				t.Errorf("%d samples, want 40", res.Samples)
			}
		}
		done, stop := context.WithCancel(context.Background())
		stop()
		if _, err := tr.Evaluate(done, good); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	})
}

func TestABlockedReaderCannotHangTheTrainer(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := samples(t, 12, 4, 3)
		ds := &faulty{good, func(ctx context.Context, at dataloader.At) error {
			if at.Index == 5 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields()})
		for range 2 {
			ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
			within(t, 10*time.Second, "a pass over a blocked reader", func() {
				if _, err := tr.Fit(ctx, ds); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want DeadlineExceeded", err)
				}
			})
			stop()
			fit(t, tr, good)
		}
	})
}

// TestAReaderThatIgnoresItsContextKeepsTheSlots has a reader that does not return: it may still write, so nothing else may use the memory.
func TestAReaderThatIgnoresItsContextKeepsTheSlots(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := samples(t, 12, 4, 3)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		release := make(chan struct{})
		ds := &faulty{good, func(_ context.Context, at dataloader.At) error {
			if at.Index == 5 {
				stop()
				<-release
			}
			return nil
		}}
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields()})
		if err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, "a pass over a stuck reader", func() {
			if _, err := tr.Fit(ctx, ds); !errors.Is(err, context.Canceled) || !errors.Is(err, dataloader.ErrStuck) {
				t.Errorf("got %v, want Canceled and ErrStuck", err)
			}
		})
		if _, err := tr.Evaluate(context.Background(), good); !errors.Is(err, trainer.ErrBusy) || !errors.Is(err, dataloader.ErrStuck) {
			t.Errorf("another pass: got %v, want ErrBusy and ErrStuck", err)
		}
		within(t, 10*time.Second, "close", func() {
			if err := tr.Close(); !errors.Is(err, dataloader.ErrStuck) {
				t.Errorf("close: got %v, want ErrStuck", err)
			}
		})
		if got := tr.Stats().Arena.Reserved; got == 0 {
			t.Error("the memory is gone under a reader")
		}
		close(release)
		within(t, 10*time.Second, "close of a reader that has come back", func() {
			for err := tr.Close(); err != nil; err = tr.Close() {
				time.Sleep(time.Millisecond)
			}
		})
		if got := tr.Stats().Arena.Reserved; got != 0 {
			t.Errorf("%d bytes are left", got)
		}
	})
}

func TestAStuckReaderThatComesBackFreesTheSlots(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := samples(t, 12, 4, 3)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		release := make(chan struct{})
		ds := &faulty{good, func(_ context.Context, at dataloader.At) error {
			if at.Index == 5 {
				stop()
				<-release
			}
			return nil
		}}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields()})
		if _, err := tr.Fit(ctx, ds); !errors.Is(err, dataloader.ErrStuck) {
			t.Errorf("got %v, want ErrStuck", err)
		}
		close(release)
		within(t, 10*time.Second, "the reader's return", func() {
			for {
				if _, err := tr.Fit(context.Background(), ds); err == nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	})
}
