package runs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/group"
)

// gate holds the goroutine that trains during a pause.
type gate struct {
	closed atomic.Bool // a pause: the fast look of each step
	done   <-chan struct{}

	mu           sync.Mutex
	paused       bool
	ended        bool
	change       chan struct{} // closed when anything here changes
	checkpointer Checkpointer
	group        group.Group
}

// open prepares the gate. The end of ctx ends pauses.
func (g *gate) open(ctx context.Context) {
	g.done, g.change = ctx.Done(), make(chan struct{})
}

// attach sets what takes checkpoints, and the group of the trainer, if it has one.
func (g *gate) attach(c Checkpointer, group group.Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checkpointer, g.group = c, group
}

// pass returns 0 at once unless there is a pause. During one it returns while a checkpoint is asked for,
// which needs steps, and when the pause ends: the time that it has held the caller. The other ranks of a
// group wait without a limit meanwhile.
func (g *gate) pass() (held time.Duration) {
	var begun time.Time
	for g.closed.Load() {
		g.mu.Lock()
		holds, change, members := g.paused && !g.ended && (g.checkpointer == nil || !g.checkpointer.Requested()), g.change, g.group
		g.mu.Unlock()
		if !holds {
			break
		}
		if begun.IsZero() {
			begun = time.Now()
			if members != nil {
				defer members.Busy("paused")()
			}
		}
		select {
		case <-change:
			continue
		case <-g.done:
		}
		break
	}
	if begun.IsZero() {
		return 0
	}
	return time.Since(begun)
}

// set changes the gate and wakes what waits at it.
func (g *gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.closed.Store(g.paused && !g.ended)
	close(g.change)
	g.change = make(chan struct{})
}

// close ends pauses for ever.
func (g *gate) close() { g.set(func() { g.ended = true }) }

// isPaused reports whether there is a pause.
func (g *gate) isPaused() bool { return g.closed.Load() }

// change changes the gate, and has subscribers told at once.
func (r *Run) change(change func()) {
	r.gate.set(change)
	select {
	case r.wake <- struct{}{}:
	default: // the recorder has not looked since the last change
	}
}

// Pause holds the training after the step that runs, and one more that may be on the device already,
// until Continue, Stop, Close or the end of the run's context.
func (r *Run) Pause() {
	r.change(func() { r.gate.paused = true })
	r.log.Info("pause", "run", r.opt.Name)
}

// Continue ends a pause.
func (r *Run) Continue() {
	r.change(func() { r.gate.paused = false })
	r.log.Info("continue", "run", r.opt.Name)
}

// Stop calls Source.Stop, and ends a pause so that the training can end. Before Attach the error wraps
// ErrNotReady, and without a Source.Stop ErrControl.
func (r *Run) Stop() error {
	s := r.source.Load()
	if s == nil {
		return fmt.Errorf("stop: %w", ErrNotReady)
	}
	if s.Stop == nil {
		return fmt.Errorf("stop: %w: a program sets Source.Stop for it", ErrControl)
	}
	s.Stop()
	r.mu.Lock()
	r.state.Stopping = true
	r.mu.Unlock()
	r.change(func() { r.gate.paused = false })
	r.log.Info("stop", "run", r.opt.Name)
	return nil
}

// Checkpoint asks Source.Checkpointer for a checkpoint, and does not wait for it. During a pause
// training goes on until it is taken, a step or two. Before Attach the error wraps ErrNotReady, and
// without a Checkpointer ErrControl.
func (r *Run) Checkpoint() error {
	s := r.source.Load()
	if s == nil {
		return fmt.Errorf("checkpoint: %w", ErrNotReady)
	}
	if s.Checkpointer == nil {
		return fmt.Errorf("checkpoint: %w: start it with a folder for checkpoints (-checkpoint DIR in the examples, Source.Checkpointer in a program)", ErrControl)
	}
	s.Checkpointer.Request()
	r.change(func() {})
	r.log.Info("checkpoint requested", "run", r.opt.Name)
	return nil
}
