package runs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/trainer/runs"
)

// requests is a Checkpointer.
type requests struct{ pending atomic.Bool }

func (r *requests) Request()        { r.pending.Store(true) }
func (r *requests) Requested() bool { return r.pending.Load() }

// returns reports whether a call returns within a time.
func returns(done <-chan struct{}, within time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(within):
		return false
	}
}

// A pause holds the training until one of these ends it.
func TestAPauseEnds(t *testing.T) {
	for name, end := range map[string]func(r *runs.Run, cancel func()){
		"by Continue":    func(r *runs.Run, _ func()) { r.Continue() },
		"by Stop":        func(r *runs.Run, _ func()) { _ = r.Stop() },
		"by Close":       func(r *runs.Run, _ func()) { _ = r.Close() },
		"by its context": func(_ *runs.Run, cancel func()) { cancel() },
		"for a checkpoint": func(r *runs.Run, _ func()) {
			if err := r.Checkpoint(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := created(t, ctx, "", runs.Options{})
			checkpoints := &requests{}
			if err := r.Attach(runs.Source{Stop: func() {}, Checkpointer: checkpoints}); err != nil {
				t.Fatal(err)
			}
			r.Progress(progress(1)) // returns
			r.Pause()
			if s := r.State(); s.Status != runs.Paused {
				t.Errorf("status %v", s.Status)
			}
			done := make(chan struct{})
			go func() { defer close(done); r.Progress(progress(2)) }()
			if returns(done, 20*time.Millisecond) {
				t.Error("a pause does not hold the training")
			}
			end(r, cancel)
			if !returns(done, 10*time.Second) {
				t.Fatal("the pause does not end")
			}
			if name != "for a checkpoint" {
				return
			}
			checkpoints.pending.Store(false) // it is taken: the pause goes on
			again := make(chan struct{})
			go func() { defer close(again); r.Progress(progress(3)) }()
			if returns(again, 20*time.Millisecond) {
				t.Error("the pause has ended with the checkpoint")
			}
			r.Continue()
			<-again
		})
	}
}

func TestAControlWithoutAFunctionIsRefused(t *testing.T) {
	t.Parallel()
	r := created(t, t.Context(), "", runs.Options{})
	for _, class := range []error{runs.ErrNotReady, runs.ErrControl} {
		if err := r.Stop(); !errors.Is(err, class) {
			t.Errorf("Stop: %v", err)
		}
		if err := r.Checkpoint(); !errors.Is(err, class) {
			t.Errorf("Checkpoint: %v", err)
		}
		_ = r.Attach(runs.Source{})
	}
	if err := r.Attach(runs.Source{}); err == nil {
		t.Error("a second source is accepted")
	}
}

// A subscriber has a snapshot and then what is new; one that does not read is dropped, and nobody waits
// for it.
func TestASlowSubscriberIsDropped(t *testing.T) {
	t.Parallel()
	r := created(t, t.Context(), "", runs.Options{})
	slow, fast := r.Subscribe(), r.Subscribe()
	if e := <-fast.Events(); e.Name != "snapshot" {
		t.Errorf("first event %q", e.Name)
	}
	for n := int64(1); ; n++ { // each change of the status is an event
		r.Progress(progress(n))
		r.Pause()
		if e := <-fast.Events(); e.Name != "delta" {
			t.Fatalf("event %q", e.Name)
		}
		r.Continue()
		<-fast.Events()
		if n == 10 {
			break
		}
	}
	n := 0
	for range slow.Events() {
		n++
	}
	if n != 16 {
		t.Errorf("the slow subscriber had %d events, want those of the buffer", n)
	}
	fast.Close()
	fast.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for e := range r.Subscribe().Events() {
		names = append(names, e.Name)
	}
	if len(names) != 1 || names[0] != "snapshot" {
		t.Errorf("events after Close: %q", names)
	}
}
