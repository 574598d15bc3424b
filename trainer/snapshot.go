package trainer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// snapshots are calls that read the parameters of a trainer between two steps. While nothing else
// uses the device they run at once; during a pass, the pass runs them before its next step:
//
//	pass      step 5 ──────── read ─ step 6 ──────
//	caller         waits ────────── goes on
//
// Work that read enqueues on the compute stream is after step 5 and before step 6, on every device.
type snapshots struct {
	count atomic.Int32 // of waiting, which the pass looks at before each step

	mu      sync.Mutex
	waiting []*snapshot
}

// snapshot is a call that waits for the pass.
type snapshot struct {
	read      func(running *epochPass) error // running: the pass that calls it; nil: none runs
	collected bool                           // no step may be in flight when read is called
	done      chan error                     // gets the error of read, or errPassEnded
}

// errPassEnded wakes the calls that a pass has not served.
var errPassEnded = errors.New("the pass has ended")

// snapshot calls read while no step is being enqueued. During a pass of Fit or Evaluate it waits for
// the end of a step; in a callback of the pass, such as Options.Progress, it reads at once. If
// collected is set, read needs the numbers of the last step, too: no other one may be in flight. In a
// callback that is an error.
func (t *Trainer) snapshot(ctx context.Context, collected bool, read func(running *epochPass) error) error {
	for {
		err := t.use().acquire(ctx)
		if err == nil {
			defer t.usage.release()
			return read(nil)
		}
		if !errors.Is(err, ErrBusy) || !t.usage.passes() {
			if errors.Is(err, ErrBusy) && t.usage.check() == nil { // the pass has ended since acquire
				continue
			}
			return err
		}
		if insidePass() {
			if collected {
				return fmt.Errorf("%w: %w", err, errInCallback)
			}
			return read(nil)
		}
		s := &snapshot{read: read, collected: collected, done: make(chan error, 1)}
		t.usage.snapshots.add(s)
		if !t.usage.passes() && t.usage.snapshots.remove(s) { // nobody is left who would serve it
			continue
		}
		select {
		case err = <-s.done:
		case <-ctx.Done():
			if t.usage.snapshots.remove(s) {
				return ctx.Err()
			}
			err = <-s.done // it is being read
		}
		if !errors.Is(err, errPassEnded) {
			return err
		}
	}
}

// add registers a call.
func (w *snapshots) add(s *snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, s)
	w.count.Store(int32(len(w.waiting)))
}

// remove withdraws a call. It returns false if the pass has taken it.
func (w *snapshots) remove(s *snapshot) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, o := range w.waiting {
		if o == s {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			w.count.Store(int32(len(w.waiting)))
			return true
		}
	}
	return false
}

// take returns the calls that wait, and forgets them.
func (w *snapshots) take() []*snapshot {
	if w.count.Load() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.waiting
	w.waiting = nil
	w.count.Store(0)
	return all
}

// serveSnapshots runs the calls that wait. The pass calls it between two batches; before is the slot
// of the step that is in flight, or nil. It returns that slot unless it had to collect the step. again
// is that of collectFirst.
func (p *epochPass) serveSnapshots(ctx context.Context, before *slot) (after *slot, again bool, err error) {
	w := &p.t.usage.snapshots
	if w.count.Load() == 0 {
		return before, false, nil
	}
	if before != nil && p.body != nil { // the body admits calls; whoever waits in it must not wait for a call here
		if again, err = p.collectFirst(ctx, before); err != nil {
			return nil, again, err
		}
		before = nil
	}
	all := w.take()
	if before != nil && slices.ContainsFunc(all, func(s *snapshot) bool { return s.collected }) {
		_, err = p.collectFirst(ctx, before)
		before = nil
	}
	for _, s := range all {
		if err != nil {
			s.done <- errPassEnded
		} else {
			s.done <- s.read(p)
		}
	}
	return before, again, err
}

// end wakes the calls that the pass has not served.
func (w *snapshots) end() {
	for _, s := range w.take() {
		s.done <- errPassEnded
	}
}

// insidePass reports whether a pass of this goroutine has called, at any depth.
func insidePass() bool {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, ".(*epochPass).") {
			return true
		}
		if !more {
			return false
		}
	}
}

// passes reports whether a pass runs.
func (u *usage) passes() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pass != ""
}
