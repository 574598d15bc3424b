package checkpoint_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// Stop and a context that ends both end a loop after its step, with a checkpoint of that step.
func TestALoopThatIsStoppedLeavesACheckpoint(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40)
		want := uninterrupted(t, options(dev), ds, 3)
		for _, cancels := range []bool{false, true} {
			stop := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f, tr := opened(t, t.TempDir(), checkpoint.Options{Stop: stop}), made(t, options(dev))
			steps, last := 0, error(nil)
			for step, err := range f.Steps(ctx, tr, loop.Until(ctx, tr, ds, 3)) {
				if last = err; err == nil {
					steps++
				}
				if step.Number == 7 && cancels {
					cancel()
				} else if step.Number == 7 {
					close(stop)
				}
			}
			if steps != 7 || f.Stopped() == cancels || cancels && !errors.Is(last, context.Canceled) || !cancels && last != nil {
				t.Errorf("cancelled %v: %d steps, stopped %v, %v", cancels, steps, f.Stopped(), last)
			}
			if s := f.Stats(); s.Saved != 1 || s.Last.Step != 7 { // it is written already
				t.Errorf("cancelled %v: %+v", cancels, s)
			}
			// A further loop does not begin.
			if !cancels {
				for range f.Steps(t.Context(), tr, loop.Until(t.Context(), tr, ds, 3)) {
					t.Error("a step after the end")
				}
			}
			closed(t, f)
			f, tr = opened(t, f.Dir(), checkpoint.Options{}), made(t, options(dev))
			resume(t, f, tr)
			if train(t, f, tr, ds, 3); bits(t, tr) != want {
				t.Errorf("cancelled %v: other bits than without a break", cancels)
			}
			closed(t, f)
		}
	})
}

func TestFitThatIsStoppedLeavesACheckpoint(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 400) // 50 steps
		want := uninterrupted(t, options(dev), ds, 1)
		for _, cancels := range []bool{false, true} {
			stop := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opt := options(dev)
			opt.Progress = func(p trainer.Progress) {
				if p.StepNumber == 9 && cancels {
					cancel()
				} else if p.StepNumber == 9 {
					close(stop)
				}
			}
			f, tr := opened(t, t.TempDir(), checkpoint.Options{Stop: stop}), made(t, opt)
			slow := slowData{ds, 5 * time.Millisecond, stop}
			if cancels {
				slow.after = ctx.Done()
			}
			r, err := f.Fit(ctx, tr, slow)
			if f.Stopped() == cancels || cancels && !errors.Is(err, context.Canceled) || !cancels && err != nil || r.Steps < 9 || r.Steps == 50 {
				t.Errorf("cancelled %v: %+v, stopped %v, %v", cancels, r, f.Stopped(), err)
			}
			if s := f.Stats(); s.Saved != 1 || s.Last.Step < 9 {
				t.Errorf("cancelled %v: %+v", cancels, s)
			}
			closed(t, f)
			f, tr = opened(t, f.Dir(), checkpoint.Options{}), made(t, options(dev))
			resume(t, f, tr)
			if r, err := f.Fit(t.Context(), tr, ds); err != nil || r.Steps != 50 || bits(t, tr) != want {
				t.Errorf("cancelled %v: %+v, %v, or other bits than without a break", cancels, r, err)
			}
			closed(t, f)
		}
	})
}

func TestASignalIsACleanEnd(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := start(t, "signal", t.TempDir())
		p.until("step 20")
		if err := p.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		line := p.until("stopped")
		if err := p.Wait(); err != nil || !strings.HasPrefix(line, "stopped after step") {
			t.Errorf("%v: %q, %v", signal, line, err)
		}
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	p := start(t, "ignore", t.TempDir())
	p.until("step")
	begun := time.Now()
	for _, after := range []string{"first", "nothing"} {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		p.until(after)
	}
	err := p.Wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || status.Signal() != syscall.SIGINT || time.Since(begun) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

func TestReleasedSignalsStopNothing(t *testing.T) {
	stop, release := checkpoint.Signals()
	release()
	release()
	select {
	case <-stop:
		t.Error("stopped")
	default:
	}
}

// faulty is a dataset whose samples are not finite while it is told so.
type faulty struct {
	dataloader.Dataset
	from, to int64 // numbers of fetches
	fetched  *atomic.Int64
}

func (f faulty) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	err := f.Dataset.Fetch(ctx, at, dst)
	if n := f.fetched.Add(1); n >= f.from && n < f.to {
		copy(dst[0], []byte{0, 0, 0xc0, 0x7f}) // NaN
	}
	return err
}

// After a fault in the numbers the loop goes on from the last checkpoint, in another order and at a
// lower rate.
func TestAFaultInTheNumbersIsRolledBack(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 80) // 10 steps
		for _, fit := range []bool{false, true} {
			opt := options(dev)
			opt.Schedule = nil
			bad := faulty{ds, 150, 170, new(atomic.Int64)} // about step 20
			f := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 4, Rollback: checkpoint.Rollback{Times: 20, RateFactor: 0.5}})
			tr := made(t, opt)
			rate := 0.0
			for tr.Position().Epoch < 4 {
				if fit {
					if _, err := f.Fit(t.Context(), tr, bad); err != nil {
						t.Fatal(err)
					}
					continue
				}
				for step, err := range f.Steps(t.Context(), tr, waiting(f, loop.Until(t.Context(), tr, bad, 4))) {
					if err != nil {
						t.Fatal(err)
					}
					rate = step.Rate
				}
			}
			s := f.Stats()
			if s.RolledBack < 1 || tr.Stats().Steps != 40 {
				t.Errorf("fit %v: %+v, %d steps", fit, s, tr.Stats().Steps)
			}
			_ = f.Wait() // it holds the memory of a State
			state, err := tr.Capture(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := state.Info().Order; got != uint64(s.RolledBack) { // another one each time
				t.Errorf("fit %v: order %d after %d rollbacks", fit, got, s.RolledBack)
			}
			state.Release()
			if want := 0.001 * math.Pow(0.5, float64(s.RolledBack)); !fit && math.Abs(rate-want) > 1e-9 {
				t.Errorf("rate %v after %d rollbacks, want %v", rate, s.RolledBack, want)
			}
			closed(t, f)
			// The order and the rate are in the checkpoint.
			f, again := opened(t, f.Dir(), checkpoint.Options{}), made(t, opt)
			resume(t, f, again)
			for _, x := range []*trainer.Trainer{tr, again} {
				if _, err := x.Fit(t.Context(), ds); err != nil {
					t.Fatal(err)
				}
			}
			if !fit && bits(t, tr) != bits(t, again) { // Fit's last checkpoint is an earlier one
				t.Errorf("fit %v: the resumed run has other bits", fit)
			}
			closed(t, f)
		}
	})
}

func TestFaultsInTheNumbersAreRolledBackSoOften(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds := samples(t, 80)
	for _, times := range []int{0, 1, 3} {
		bad := faulty{ds, 150, math.MaxInt64, new(atomic.Int64)}
		f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 4, Rollback: checkpoint.Rollback{Times: times}}), made(t, options(dev))
		var last error
		for _, last = range f.Steps(t.Context(), tr, loop.Until(t.Context(), tr, bad, 4)) {
		}
		if !errors.Is(last, trainer.ErrNonFinite) || f.Stats().RolledBack != times {
			t.Errorf("%d times: %v, %+v", times, last, f.Stats())
		}
		closed(t, f)
	}
	// Another fault than one in the numbers is the error of the loop.
	f, tr := opened(t, t.TempDir(), checkpoint.Options{Rollback: checkpoint.Rollback{Times: 3}}), made(t, options(dev))
	broken := errors.New("broken")
	for _, err := range f.Steps(t.Context(), tr, func(yield func(trainer.Step, error) bool) { yield(trainer.Step{}, broken) }) {
		if err != broken {
			t.Errorf("got %v", err)
		}
	}
	if f.Stats().RolledBack != 0 || len(f.Checkpoints()) != 1 { // the one before the first step
		t.Errorf("%+v", f.Stats())
	}
	closed(t, f)
}
