package dataloader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"
)

// Slot is the memory of one batch. Field k has room for at least Batch rows of the dataset's field k, row-major.
type Slot struct {
	Fields [][]byte
	Ready  Waiter // where not nil, the first fill of an epoch waits for it, as after Release
}

// Waiter is an event after which a slot may be overwritten; arena.Event is one. Sync is called from a worker.
type Waiter interface{ Sync() error }

// Batch is a filled slot, the caller's until it is released.
type Batch struct {
	Slot    int     // index into the slots of the run
	Step    int     // 0-based, in order
	Rows    int     // samples in the slot: the loader's Batch, or fewer in the last
	Indices []int32 // [Rows] the samples' indices in the dataset; valid until Release or Close
}

// state is where a slot is in its circle.
type state uint8

const (
	free    state = iota // nothing left to fill it with
	waiting              // for its Waiter
	syncing              // a worker is in its Waiter's Sync
	filling              // rows are being fetched
	due                  // for Next to write itself, where the dataset is instant
	filled               // whole, and not yet handed out
	held                 // by the caller
)

// fill is what happens to one slot. All fields are guarded by the loader's mu, except done.
type fill struct {
	slot  Slot
	state state
	step  int           // the batch in the slot
	rows  int           // of that batch
	next  int           // first row that no worker has claimed
	left  int           // rows that are not finished
	ready Waiter        // to be awaited before the first row
	done  chan struct{} // capacity 1: holds a token while state is filled
}

// Run is one epoch. Next, Release and Close may be called from any goroutine, Next from one at a time.
//
// Invariant: steps [given, issued) are in slots, in the ring at step % len(fills), and no others.
type Run struct {
	l      *Loader
	epoch  int
	ctx    context.Context // of the workers; ends with Close
	cancel context.CancelFunc

	// failed is the lowest position that failed, MaxInt64 while there is none. Positions before it are still fetched,
	// later ones are not, so that the error that Next returns does not depend on the workers' timing.
	failed atomic.Int64
	quiet  chan struct{} // closed when the run is closed and no worker is in it

	// Guarded by l.mu.
	fills  []fill
	ring   []int // slot of a step
	issued int   // steps that were given a slot
	given  int   // steps that Next has returned
	busy   int   // workers at work for this run
	asked  bool  // a call of Next is waiting
	closed bool
	err    error // of position failed
	last   error // what Next returned when it failed
}

func newRun(ctx context.Context, l *Loader, epoch int, slots []Slot) *Run {
	r := &Run{l: l, epoch: epoch, fills: make([]fill, len(slots)), ring: make([]int, len(slots)), quiet: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.failed.Store(math.MaxInt64)
	for i, s := range slots {
		r.fills[i] = fill{slot: s, done: make(chan struct{}, 1)}
		r.issue(i, s.Ready)
	}
	return r
}

// position numbers what can fail in an epoch, in order: of each step first the slot's Waiter (row -1), then its rows.
func (r *Run) position(step, row int) int64 {
	return int64(step)*int64(r.l.opt.Batch+1) + int64(row+1)
}

// ended is the error of a context that is done, with its cause where that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// issue gives slot i the next step, if there is one. l.mu is held.
func (r *Run) issue(i int, ready Waiter) {
	f := &r.fills[i]
	if r.issued == r.l.steps {
		f.state = free
		return
	}
	f.step = r.issued
	f.rows = min(r.l.opt.Batch, len(r.l.order)-f.step*r.l.opt.Batch)
	f.next, f.left, f.ready, f.state = 0, f.rows, ready, filling
	switch {
	case ready != nil:
		f.state = waiting
	case r.l.instant != nil:
		f.state = due
	}
	r.ring[f.step%len(r.ring)] = i
	r.issued++
}

// Next waits for the next batch. Batches come in the order of their steps, and are the same whatever the number of
// workers is. At the end of the epoch it returns io.EOF. When a sample failed it returns a *SampleError, after the
// batches before it, and the same again from then on. When ctx is done it returns ctx's error, and may be called again;
// when the epoch's own context is done, that one's. It allocates nothing.
func (r *Run) Next(ctx context.Context) (Batch, error) {
	if r == nil || r.l == nil {
		return Batch{}, fmt.Errorf("next: %w", errNoRun)
	}
	if ctx == nil {
		return Batch{}, fmt.Errorf("next: %w", errNoContext)
	}
	if err := r.l.changed(false); err != nil {
		r.abandon(err)
	}
	f, b, err := r.await(ctx)
	if f == nil || err != nil {
		return b, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	return r.take(ctx, f)
}

// errNoRun is about a Run that no loader made.
var errNoRun = fmt.Errorf("the run was not made: use Loader.Epoch: %w", ErrOption)

// abandon ends the run with err, for this call of Next and all later ones.
func (r *Run) abandon(err error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.last == nil {
		r.last = err
		r.failed.Store(-1)
	}
}

// await returns the slot that the next batch is in or will be in. Where it is due, await writes the batch and returns that instead.
func (r *Run) await(ctx context.Context) (*fill, Batch, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if err := r.over(ctx); err != nil {
		return nil, Batch{}, err
	}
	switch {
	case r.asked:
		return nil, Batch{}, fmt.Errorf("next: another call is waiting: %w", ErrBusy)
	case r.given == r.l.steps:
		return nil, Batch{}, io.EOF
	case r.given == r.issued:
		return nil, Batch{}, fmt.Errorf("next: step %d: %w", r.given, ErrHeld)
	}
	f := &r.fills[r.ring[r.given%len(r.ring)]]
	if f.state == due {
		b := r.give(f)
		r.l.instant.fill(f.slot.Fields, b.Indices)
		return nil, b, nil
	}
	r.asked = true
	return f, Batch{}, nil
}

// give hands f out. l.mu is held.
func (r *Run) give(f *fill) Batch {
	f.state = held
	r.given++
	first := f.step * r.l.opt.Batch
	return Batch{Slot: r.ring[f.step%len(r.ring)], Step: f.step, Rows: f.rows, Indices: r.l.order[first : first+f.rows : first+f.rows]}
}

// over returns why no batch will be given to a caller with ctx, or nil. l.mu is held.
func (r *Run) over(ctx context.Context) error {
	switch {
	case r.closed:
		return fmt.Errorf("run of epoch %d: %w", r.epoch, ErrClosed)
	case r.last != nil:
		return r.last
	case ctx.Err() != nil:
		return ended(ctx)
	case r.ctx.Err() != nil:
		return ended(r.ctx)
	}
	return nil
}

// take hands f out, or returns why it cannot.
func (r *Run) take(ctx context.Context, f *fill) (Batch, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.asked = false
	if err := r.over(ctx); err != nil {
		if f.state == filled && len(f.done) == 0 {
			f.done <- struct{}{} // for the next call
		}
		return Batch{}, err
	}
	if r.failed.Load() < r.position(f.step+1, -1) {
		r.last = r.err
		return Batch{}, r.last
	}
	return r.give(f), nil
}

// Release gives a slot back, to be refilled once ready.Sync has returned; nil means at once. An error of Sync
// reaches Next in the place of the batch that would have been in the slot. Release does not wait and allocates
// nothing. Where no batch is left for the slot, nobody waits for ready: pass it on in Slot.Ready of the next epoch.
// Releasing a slot that is not held is an error that wraps ErrSlot.
func (r *Run) Release(slot int, ready Waiter) error {
	if r == nil || r.l == nil {
		return fmt.Errorf("release slot %d: %w", slot, errNoRun)
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.closed {
		return fmt.Errorf("release slot %d: run of epoch %d: %w", slot, r.epoch, ErrClosed)
	}
	if slot < 0 || slot >= len(r.fills) {
		return fmt.Errorf("release slot %d of %d: %w", slot, len(r.fills), ErrSlot)
	}
	if r.fills[slot].state != held {
		return fmt.Errorf("release slot %d: it is not held: %w", slot, ErrSlot)
	}
	r.issue(slot, ready)
	if r.fills[slot].state != due {
		r.l.wake.Broadcast()
	}
	return nil
}

// Close ends the run. It returns when no worker reads or writes for it any more; a worker whose Fetch ignores its context
// is left behind after Options.Grace, and the error is then a *StuckError that names its sample. Until Stuck
// returns nil, that Fetch may still write to the row that it was given: keep the slots allocated, and rely on
// nothing in them. Nothing else is harmed by it, and the loader can be used again once it has returned. Safe to call twice.
func (r *Run) Close() error {
	if r == nil || r.l == nil {
		return nil
	}
	l := r.l
	l.mu.Lock()
	if !r.closed {
		r.closed = true
		r.cancel()
		r.settle()
	}
	l.mu.Unlock()
	select {
	case <-r.quiet:
		return nil
	default:
	}
	t := time.NewTicker(l.opt.Grace)
	defer t.Stop()
	for {
		select {
		case <-r.quiet:
			return nil
		case <-t.C:
			// A worker that is not inside the dataset's code is only slow.
			if e := r.stuck(); e != nil && len(e.Blocked) > 0 {
				return e
			}
		}
	}
}

// settle ends a closed run when its last worker has left: nothing of the run keeps the caller's memory alive from then on. l.mu is held.
func (r *Run) settle() {
	if !r.closed || r.busy > 0 {
		return
	}
	for i := range r.fills {
		r.fills[i].slot, r.fills[i].ready = Slot{}, nil
	}
	close(r.quiet)
}

// Stuck returns a *StuckError while a closed run has workers that have not come back, else nil. As long as it does,
// the memory of the slots must stay allocated.
func (r *Run) Stuck() error {
	if r == nil || r.l == nil {
		return nil
	}
	if e := r.stuck(); e != nil {
		return e
	}
	return nil
}

func (r *Run) stuck() *StuckError {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if !r.closed || r.busy == 0 {
		return nil
	}
	return r.l.blocked()
}
