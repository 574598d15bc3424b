package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestAHundredTrainersLeaveNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 9, 4, 3)
		goroutines, count := 0, 100
		if testing.Short() {
			count = 24
		}
		for i := range count {
			tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Workers: 3, Resident: []dataloader.Dataset{ds}})
			if err != nil {
				t.Fatal(err)
			}
			switch i % 4 { // closed in every state
			case 1:
				fit(t, tr, ds)
			case 2:
				outputs(t, tr, ds)
			case 3:
				evaluate(t, tr, samples(t, 9, 4, 3))
			}
			for range 2 {
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if s := tr.Stats(); s.Arena.Reserved != 0 || s.Arena.InUse != 0 || s.Pinned != 0 {
				t.Fatalf("after Close: %+v", s)
			}
			if d, ok := dev.(*emu.Device); ok && !d.Ledger().Empty() {
				t.Fatalf("after Close: %v", d.Ledger())
			}
			if n := runtime.NumGoroutine(); i == 4 {
				goroutines = n
			} else if i > 4 && !settles(goroutines) {
				t.Fatalf("trainer %d: %d goroutines, %d after the fifth", i, n, goroutines)
			}
		}
	})
}

// settles reports whether there are n goroutines or fewer, now or soon: one that has done its work takes a moment to go.
func settles(n int) bool {
	for range 1000 {
		if runtime.NumGoroutine() <= n {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func TestAClosedTrainerReturnsErrClosed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 9, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Keep: weights})
		fit(t, tr, ds)
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(context.Background(), ds); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("fit: %v", err)
		}
		if _, err := tr.Evaluate(context.Background(), ds); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("evaluate: %v", err)
		}
		if err := firstError(tr, ds); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("predict: %v", err)
		}
		if _, _, err := tr.Kept("out/w"); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("kept: %v", err)
		}
		if tr.Plan().Total == 0 {
			t.Error("the plan is gone")
		}
		fit(t, made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()}), ds) // the device is alive
	})
}

func TestAClosedDeviceIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4}); !errors.Is(err, arena.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

// A program that ignores the error of New has a nil trainer.
func TestATrainerThatNewDidNotMakeIsClosed(t *testing.T) {
	t.Parallel()
	ds := samples(t, 9, 4, 3)
	for name, tr := range map[string]*trainer.Trainer{"nil": nil, "zero": {}} {
		var param trainer.Param
		for call, f := range map[string]func() error{
			"Fit":         func() error { _, err := tr.Fit(t.Context(), ds); return err },
			"Evaluate":    func() error { _, err := tr.Evaluate(t.Context(), ds); return err },
			"Predict":     func() error { return firstError(tr, ds) },
			"Params":      func() error { _, err := tr.Params(); return err },
			"Kept":        func() error { _, _, err := tr.Kept("out/w"); return err },
			"Param.Read":  func() error { return param.Read(nil) },
			"Param.Write": func() error { return param.Write(nil) },
		} {
			if err := f(); !errors.Is(err, arena.ErrClosed) {
				t.Errorf("%s: %s: got %v, want arena.ErrClosed", name, call, err)
			}
		}
		if p, s, scale := tr.Plan(), tr.Stats(), tr.LossScale(); p.Total != 0 || s.Programs != 0 || s.Arena.Reserved != 0 || scale != (optim.ScalingState{}) {
			t.Errorf("%s: plan of %d bytes, %+v, %+v, want zeros", name, p.Total, s, scale)
		}
		if err := tr.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
}

func TestADeviceThatIsClosedUnderATrainerEndsItsCalls(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, resident := samples(t, 9, 4, 3), samples(t, 9, 4, 3)
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Resident: []dataloader.Dataset{resident}})
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Close(); err != nil {
			t.Log(err) // what the trainer holds
		}
		for name, ds := range map[string]dataloader.Dataset{"streamed": ds, "resident": resident} {
			for row, err := range tr.Predict(t.Context(), ds) {
				if !errors.Is(err, arena.ErrClosed) {
					t.Errorf("%s: Predict: got %v, %v, want ErrClosed", name, row, err)
				}
			}
			if _, err := tr.Fit(t.Context(), ds); !errors.Is(err, arena.ErrClosed) {
				t.Errorf("%s: Fit: got %v, want ErrClosed", name, err)
			}
		}
		if err := tr.Close(); err != nil && !errors.Is(err, arena.ErrClosed) {
			t.Errorf("Close: got %v, want ErrClosed or nil", err)
		}
	})
}

// TestEveryFaultOfNewLeavesNothing fails each call that New makes, one a run.
func TestEveryFaultOfNewLeavesNothing(t *testing.T) {
	ds := samples(t, 9, 4, 3)
	injected := errors.New("injected")
	for _, call := range emu.Calls() {
		for n := 1; ; n++ {
			hit := false
			dev := emutest.OpenChecked(t, emu.Options{Fault: func(c string, k int) error {
				if c == call && k == n {
					hit = true
					return injected
				}
				return nil
			}})
			tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Resident: []dataloader.Dataset{ds}, Optimizer: optim.Adam{}, Offload: offloaded})
			if err == nil {
				if cerr := tr.Close(); cerr != nil && !errors.Is(cerr, injected) {
					t.Errorf("%s %d: close: %v", call, n, cerr)
				}
			} else if !errors.Is(err, injected) {
				t.Errorf("%s %d: got %v, want the injected error", call, n, err)
			}
			if l := dev.Ledger(); !l.Empty() {
				t.Errorf("%s %d: left: %v", call, n, l)
			}
			if !hit {
				break
			}
			// Info is asked twice; a refusal of the second only takes words from another error.
			if err == nil && call != "info" {
				t.Errorf("%s %d failed and New did not notice", call, n)
			}
		}
	}
}

// TestEveryFaultOfAPassIsReturnedAndSurvived fails each call that passes make, one a run: the pass returns the error, and later passes work.
func TestEveryFaultOfAPassIsReturnedAndSurvived(t *testing.T) {
	ds := samples(t, 20, 4, 3)
	work := func(_ kernels.Device, tr *trainer.Trainer) error {
		_, err := tr.Fit(context.Background(), ds)
		_, err2 := tr.Evaluate(context.Background(), ds)
		return errors.Join(err, err2, firstError(tr, ds))
	}
	eachFault(t, ds, work, func(call, where string, err error) {
		if !errors.Is(err, errInjected) {
			t.Errorf("%s: got %v, want the injected error", where, err)
		}
		if strings.HasPrefix(call, "run") && !strings.Contains(err.Error(), "stream") {
			t.Errorf("%s: %v does not say which work failed", where, err)
		}
	}, func(_ string, tr *trainer.Trainer) {
		fit(t, tr, ds)
		evaluate(t, tr, ds)
	})
}

var errInjected = errors.New("injected")

// eachFault does work on a trainer for ds with a fault of one call of its device, for each kind of call and for the first 40 of a kind. check gets
// the error of the work if the call was made. Then the device works, and later uses the trainer again. where names the fault.
func eachFault(t *testing.T, ds dataloader.Dataset, work func(dev kernels.Device, tr *trainer.Trainer) error, check func(call, where string, err error),
	later func(where string, tr *trainer.Trainer),
) {
	for _, call := range emu.Calls() {
		for n := 1; n <= 40; n += 1 + n/6 {
			armed, hit, count := false, false, 0
			dev := emutest.OpenChecked(t, emu.Options{Fault: faults(func(c string) error {
				if !armed || c != call {
					return nil
				}
				if count++; count == n {
					hit = true
					return errInjected
				}
				return nil
			})})
			tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{}, Offload: offloaded})
			if err != nil {
				t.Fatal(err)
			}
			where := fmt.Sprintf("a fault of %s %d", call, n)
			armed = true
			within(t, 20*time.Second, where, func() { err = work(dev, tr) })
			if hit {
				check(call, where, err)
			}
			armed = false
			later(where, tr)
			if err := tr.Close(); err != nil {
				t.Errorf("%s: close: %v", where, err)
			}
			if !hit {
				break
			}
		}
	}
}

func TestAfterAFatalFaultEveryCallFailsAndCloseReturns(t *testing.T) {
	ds := samples(t, 20, 4, 3)
	for _, call := range []string{"run call", "run copy", "launch", "copy", "record", "wait", "event sync"} {
		armed := false
		first := fmt.Errorf("the card fell off the bus: %w", emu.ErrFatal)
		dev := emutest.Open(t, emu.Options{Fault: faults(func(c string) error {
			if armed && c == call {
				return first
			}
			return nil
		})})
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{}, Offload: offloaded})
		if err != nil {
			t.Fatal(err)
		}
		armed = true
		within(t, 20*time.Second, "calls after a fatal fault of "+call, func() {
			for range 2 {
				if _, err := tr.Fit(context.Background(), ds); !errors.Is(err, first) {
					t.Errorf("%s: fit: got %v, want the first error", call, err)
				}
			}
			if err := firstError(tr, ds); !errors.Is(err, first) {
				t.Errorf("%s: predict: got %v, want the first error", call, err)
			}
			if err := tr.Close(); err != nil && !errors.Is(err, first) {
				t.Errorf("%s: close: %v", call, err)
			}
		})
		if l := dev.Ledger(); !l.Empty() {
			t.Errorf("%s: left: %v", call, l)
		}
		_ = dev.Close()
	}
}

// faults makes f, which is called from several goroutines, one that is called by one at a time.
func faults(f func(call string) error) func(string, int) error {
	sem := make(chan struct{}, 1)
	return func(call string, _ int) error {
		sem <- struct{}{}
		defer func() { <-sem }()
		return f(call)
	}
}
