package checkpoint_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

// blocked is a dataset that waits before one fetch, and may fail it.
type blocked struct {
	dataloader.Dataset
	at      int64 // number of the fetch
	until   <-chan struct{}
	fails   error
	fetched *atomic.Int64
}

func (b blocked) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	err := b.Dataset.Fetch(ctx, at, dst)
	if n := b.fetched.Add(1); n == b.at {
		<-b.until
		if b.fails != nil {
			return b.fails
		}
	}
	return err
}

// late makes the watch of Fit capture only after the pass has ended, which goes on, from the middle
// of its epoch, only when the watch is about to capture.
func late(f *checkpoint.Folder, ds dataloader.Dataset, fails error) blocked {
	about := make(chan struct{})
	var once sync.Once
	f.SetWatching(func(ended <-chan struct{}) {
		once.Do(func() { close(about) })
		<-ended
	})
	return blocked{ds, 300, about, fails, new(atomic.Int64)}
}

// A fault ends the pass while the watch is about to capture: the state goes on with the next epoch
// by then, and is no checkpoint, whatever made the watch capture.
func TestFitTakesNoCheckpointAfterAFault(t *testing.T) {
	ds, broken := samples(t, 400), errors.New("broken") // 50 steps
	for _, why := range []string{"due", "stop", "cancel"} {
		opt := checkpoint.Options{Keep: -1}
		stop := make(chan struct{})
		if opt.Stop = stop; why == "due" {
			opt.EverySteps = 1
		}
		ctx, cancel := context.WithCancel(t.Context())
		trainerOptions := options(targets[0].open(t, 0))
		trainerOptions.Progress = func(p trainer.Progress) {
			switch {
			case p.StepNumber == 5 && why == "stop":
				close(stop)
			case p.StepNumber == 5 && why == "cancel":
				cancel()
			}
		}
		f, tr := opened(t, t.TempDir(), opt), made(t, trainerOptions)
		_, err := f.Fit(ctx, tr, late(f, ds, broken))
		if !errors.Is(err, broken) || why == "cancel" != errors.Is(err, context.Canceled) || f.Stopped() {
			t.Errorf("%s: %v, stopped %v", why, err, f.Stopped())
		}
		// A further call that does not train takes none of it either.
		if why != "due" {
			f.SetWatching(nil)
			if _, err := f.Fit(ctx, tr, ds); why == "cancel" != errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", why, err)
			}
		}
		closed(t, f)
		if got := stepsOf(f); len(got) > 0 || tr.Stats().Steps >= 50 {
			t.Errorf("%s: checkpoints of steps %v, %d were trained", why, got, tr.Stats().Steps)
		}
		cancel()
	}
}

// What a rollback goes on from is not the state after the fault.
func TestFitRollsBackToBeforeTheFault(t *testing.T) {
	ds := samples(t, 400)
	opt := options(targets[0].open(t, 0))
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 1, Rollback: checkpoint.Rollback{Times: 1}}), made(t, opt)
	data := late(f, ds, nil)
	r, err := f.Fit(t.Context(), tr, faulty{data, 300, 301, new(atomic.Int64)})
	if err != nil || r.Steps != 50 || f.Stats().RolledBack != 1 || tr.Position() != (trainer.Position{Epoch: 1}) || math.IsNaN(r.Loss) {
		t.Errorf("%+v, %v, %+v, at %+v", r, err, f.Stats(), tr.Position())
	}
	closed(t, f)
}

// When the pass ends of itself while the watch is about to capture, the state is that of the next
// epoch, rightly.
func TestFitThatIsStoppedAtItsEndLeavesACheckpointOfTheEpoch(t *testing.T) {
	ds := samples(t, 400)
	for _, cancels := range []bool{false, true} {
		stop := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		opt := options(targets[0].open(t, 0))
		opt.Progress = func(p trainer.Progress) {
			if p.StepNumber == 5 && cancels {
				cancel()
			} else if p.StepNumber == 5 {
				close(stop)
			}
		}
		f, tr := opened(t, t.TempDir(), checkpoint.Options{Stop: stop}), made(t, opt)
		r, err := f.Fit(ctx, tr, late(f, ds, nil))
		if r.Steps != 50 || cancels != errors.Is(err, context.Canceled) || !cancels && err != nil || f.Stopped() == cancels {
			t.Errorf("cancelled %v: %+v, %v, stopped %v", cancels, r, err, f.Stopped())
		}
		closed(t, f)
		f, tr = opened(t, f.Dir(), checkpoint.Options{}), made(t, opt)
		if r := resume(t, f, tr); r.From.Step != 50 || r.Position != (trainer.Position{Epoch: 1}) {
			t.Errorf("cancelled %v: %+v", cancels, r)
		}
		closed(t, f)
		cancel()
	}
}

// The steps that a pass makes between its last checkpoint and its end are those of an epoch that is
// broken off: a further call takes no checkpoint of them, which would go on with the next epoch.
func TestACallAfterTheEndOfFitTakesNoCheckpoint(t *testing.T) {
	ds := slow(samples(t, 3200), time.Millisecond/4) // 400 steps, of which few are made
	for _, cancels := range []bool{false, true} {
		stop := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		begun, on := make(chan struct{}), make(chan struct{}) // the file is begun, and goes on
		written, left := int64(math.MaxInt64), 3
		opt := options(targets[0].open(t, 0))
		opt.Progress = func(p trainer.Progress) {
			if p.StepNumber == 5 && cancels {
				cancel()
			} else if p.StepNumber == 5 {
				close(stop)
			}
			select {
			case <-begun:
				if left--; left == 0 { // steps follow the captured one
					written = p.StepNumber
					close(on)
				}
			default:
			}
		}
		f, tr := opened(t, t.TempDir(), checkpoint.Options{Stop: stop}), made(t, opt)
		f.SetFiles(&signalling{FS: unsynced{}, begun: begun, wait: on})
		if _, err := f.Fit(ctx, tr, ds); cancels != errors.Is(err, context.Canceled) || f.Stopped() == cancels {
			t.Errorf("cancelled %v: %v, stopped %v", cancels, err, f.Stopped())
		}
		before := tr.Stats().Steps
		if s := f.Stats(); s.Saved != 1 || s.Last.Step >= written || before < written {
			t.Errorf("cancelled %v: %+v, %d steps", cancels, s, before)
		}
		if _, err := f.Fit(ctx, tr, ds); cancels != errors.Is(err, context.Canceled) {
			t.Errorf("cancelled %v: %v", cancels, err)
		}
		if s := f.Stats(); s.Saved != 1 || tr.Stats().Steps != before {
			t.Errorf("cancelled %v: a further call trains %d steps, %+v", cancels, tr.Stats().Steps-before, s)
		}
		closed(t, f)
		cancel()
	}
}

// signalling is a file system that says when a file is begun, and then waits.
type signalling struct {
	atomicfile.FS
	once  sync.Once
	begun chan<- struct{}
	wait  <-chan struct{}
}

func (s *signalling) Create(path string) (atomicfile.Handle, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.wait
	return s.FS.Create(path)
}
