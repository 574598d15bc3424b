package trainer_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// The body may wait for another goroutine that captures.
func TestABodyMayWaitForACapture(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Checkpoint: true})
		within(t, time.Minute, "the loop", func() {
			for s, err := range tr.Steps(context.Background(), ds) {
				if err != nil {
					t.Error(err)
					return
				}
				places := make(chan trainer.Position)
				go func() {
					if state, err := tr.Capture(context.Background()); err != nil {
						t.Error(err)
					} else {
						places <- state.Info().Position
						state.Release()
					}
					close(places)
				}()
				want := trainer.Position{Step: s.Step}
				if s.Step == s.Steps {
					want = trainer.Position{Epoch: 1}
				}
				for at := range places {
					if at != want {
						t.Errorf("step %d: captured at %+v", s.Step, at)
					}
				}
			}
		})
	})
}

// starter is a dataset that calls start once, when the third batch of 4 is read.
type starter struct {
	*dataloader.Slices
	once  *sync.Once
	start func()
}

func (s starter) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index == 8 {
		s.once.Do(s.start)
	}
	return s.Slices.Fetch(ctx, at, dst)
}

// It may also wait for one that was waiting before the body was called.
func TestABodyMayWaitForACaptureThatWaitsAlready(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := starter{Slices: samples(t, 40, 4, 3), once: new(sync.Once)}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Checkpoint: true, Sequential: true})
		captured := make(chan error, 1)
		started := make(chan struct{})
		ds.start = func() {
			time.Sleep(20 * time.Millisecond) // the pass waits for this batch, with the step before it in flight
			close(started)
			go func() {
				s, err := tr.Capture(context.Background())
				s.Release()
				captured <- err
			}()
			for range 100 { // until it waits, or was served
				if trainer.WaitingForStep(tr) > 0 {
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		}
		within(t, time.Minute, "the loop", func() {
			waited := false
			for _, err := range tr.Steps(context.Background(), ds) {
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-started:
					if !waited {
						if err := <-captured; err != nil {
							t.Error(err)
						}
						waited = true
					}
				default:
				}
			}
			if !waited {
				t.Error("no body has waited")
			}
		})
	})
}

// A body may train steps of its own between those of the epoch.
func TestStepsOfTheBodyGoOnAfterARestore(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 26, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{}, Checkpoint: true, Schedule: optim.Warmup{Steps: 30}}
		run := func(tr *trainer.Trainer, to int64, cut func()) (all []string) {
			for {
				for s, err := range tr.Steps(t.Context(), ds) {
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, fmt.Sprintf("%+v", s))
					if s.Number%2 == 0 {
						evaluate(t, tr, ds)
						own := step(t, tr, rowsOf(t, ds, 0, 4))
						all = append(all, fmt.Sprintf("%+v", own))
					}
					if s.Number >= to {
						cut()
						return all
					}
				}
			}
		}
		var end finale
		straight := made(t, normed, opt)
		want := run(straight, 30, func() { end.state = save(t, straight) })
		for _, at := range []int64{1, 2, 9, 16} {
			var s *saved
			first, second := made(t, normed, opt), made(t, normed, opt)
			got := run(first, at, func() { s = save(t, first) })
			restore(t, second, s)
			var last finale
			if got = append(got, run(second, 30, func() { last.state = save(t, second) })...); !slices.Equal(got, want) {
				t.Errorf("cut at %d: steps %s, want %s", at, got, want)
			}
			if d := end.differs(t, last); len(d) > 0 {
				t.Errorf("cut at %d: %q differ", at, d)
			}
		}
	})
}
