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

// Slot is the memory of one batch. Fields[k] holds at least Options.Batch rows of the dataset's
// field k, row-major. It must start at an address that is aligned for the type of the field.
// The loader does not check this, but [View] returns nil for memory that is not aligned.
type Slot struct {
	Fields [][]byte
	Ready  Waiter // workers call its Sync before the first fill of an epoch; nil: no wait
}

// Waiter is an event, such as an arena.Event. Workers call its Sync, which returns when the slot
// may be overwritten.
type Waiter interface{ Sync() error }

// Batch is a filled slot. The caller holds it until it calls Release.
type Batch struct {
	Slot    int   // index into the slots of the run
	Step    int   // number of the batch in the epoch, from 0
	Rows    int   // samples in the slot: Options.Batch, or fewer in the last batch; 0 only with Options.Ranks
	Indices []int // [Rows] indices of the samples in the dataset; valid until Release or Close
}

// state is the state of a slot.
type state uint8

const (
	free    state = iota // no step is left to fill it with
	waiting              // its Waiter must be synced
	syncing              // a worker is in its Waiter's Sync
	filling              // workers fetch its rows
	due                  // Next fills it, because the dataset is instant
	filled               // Next may return it
	held                 // the caller holds it
)

// fill is a slot and the batch in it. The loader's mu guards all fields except done
// and the elements of indices.
type fill struct {
	slot    Slot
	state   state
	step    int           // the batch in the slot
	first   int           // position of its first row in the epoch
	rows    int           // of that batch
	indices []int         // of its samples; each written by the worker that fetches it
	next    int           // first row that no worker has claimed
	left    int           // rows that are not finished
	ready   Waiter        // synced before the first row
	done    chan struct{} // capacity 1: holds a token while state is filled
}

// Run is one pass over the data. It is safe for concurrent use, but only one goroutine at a time
// may call Next.
type Run struct {
	// Invariant: the steps in slots are [given, issued); the slot of a step is ring[step %
	// len(fills)].

	l      *Loader
	epoch  int
	seq    Sequence
	ctx    context.Context // of the workers; ends with Close
	cancel context.CancelFunc

	// failed is the lowest position that failed, MaxInt64 if there is none. Workers still fetch the
	// positions before it but none after it, so that the error of Next does not depend on the
	// timing of workers.
	failed atomic.Int64
	quiet  chan struct{} // closed when the run is closed and no worker works for it

	observe func(Filling) // nil: nothing is observed

	// Guarded by l.mu.
	gate   *gate // nil: the dataset has no blocks
	fills  []fill
	ring   []int // slot of a step
	issued int   // steps that have got a slot
	given  int   // steps that Next has returned
	busy   int   // workers that work for this run
	asked  bool  // a call of Next is waiting
	closed bool
	err    error // of position failed
	last   error // the error that Next returned, and returns from now on

	begun, ended time.Time     // ended is zero before Close
	waited       time.Duration // in Next
	idle         time.Duration // of workers, for a slot
}

// newRun returns a run with the first steps from step on in its slots.
func newRun(ctx context.Context, l *Loader, epoch, step int, slots []Slot) *Run {
	r := &Run{l: l, observe: l.observe, epoch: epoch, seq: l.seq, begun: time.Now(), issued: step, given: step, fills: make([]fill, len(slots)), ring: make([]int, len(slots)), quiet: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.failed.Store(math.MaxInt64)
	if o, ok := l.seq.(*blockOrder); ok {
		r.gate = newGate(o, &l.cut, step)
	}
	for i, s := range slots {
		r.fills[i] = fill{slot: s, indices: l.indices[i], done: make(chan struct{}, 1)}
		r.issue(i, s.Ready)
	}
	return r
}

// position numbers everything that can fail in an epoch, in order: for each step first the Waiter
// of its slot (row -1), then its rows.
func (r *Run) position(step, row int) int64 {
	return int64(step)*int64(r.l.opt.Batch+1) + int64(row+1)
}

// ended returns the error of a context that is done, with its cause if that differs.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// issue assigns the next step, if there is one, to slot i. l.mu is held.
func (r *Run) issue(i int, ready Waiter) {
	f := &r.fills[i]
	if r.issued == r.l.steps {
		f.state = free
		return
	}
	f.step = r.issued
	f.first, f.rows = r.l.cut.rows(f.step)
	f.next, f.left, f.ready, f.state = 0, f.rows, ready, filling
	switch {
	case ready != nil:
		f.state = waiting
	case r.l.instant != nil:
		f.state = due
	case f.rows == 0:
		f.state = filled
		f.done <- struct{}{}
	}
	r.ring[f.step%len(r.ring)] = i
	r.issued++
}

// Next waits for the next batch and returns it. Batches come in the order of their steps and do not
// depend on the number of workers. At the end of the epoch Next returns io.EOF.
//
// If a sample fails, Next returns the batches before it, and then its *SampleError in every call.
// If ctx is done, Next returns its error and may be called again. If the context that was given to
// Epoch is done, Next returns that context's error. After the last batch it returns io.EOF, even if
// a context is done by then. If the caller holds all slots, the error wraps ErrHeld; if another
// call of Next is waiting, ErrBusy. Next allocates nothing.
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
	var waited time.Duration
	select {
	case <-f.done:
	default:
		begin := time.Now()
		select {
		case <-f.done:
		case <-ctx.Done():
		case <-r.ctx.Done():
		}
		waited = time.Since(begin)
	}
	return r.take(ctx, f, waited)
}

// errNoRun is the error of a zero Run.
var errNoRun = fmt.Errorf("run: use Loader.Epoch: %w", ErrOption)

// abandon ends the run with err, the result of this and all later calls of Next.
func (r *Run) abandon(err error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.last == nil {
		r.last = err
		r.failed.Store(-1)
	}
}

// await returns the slot of the next batch, which may not be filled yet. If the slot is due, await
// fills it and returns the batch instead.
func (r *Run) await(ctx context.Context) (*fill, Batch, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.given == r.l.steps && r.last == nil && !r.closed { // done, whatever has become of ctx
		return nil, Batch{}, io.EOF
	}
	if err := r.over(ctx); err != nil {
		return nil, Batch{}, err
	}
	switch {
	case r.asked:
		return nil, Batch{}, fmt.Errorf("next: another call is waiting: %w", ErrBusy)
	case r.given == r.issued:
		return nil, Batch{}, fmt.Errorf("next: step %d: %w", r.given, ErrHeld)
	}
	f := &r.fills[r.ring[r.given%len(r.ring)]]
	if f.state == due {
		if err := fillIndices(f.indices[:f.rows], r.seq, f.first, r.l.samples); err != nil {
			r.last = fmt.Errorf("step %d: %w", f.step, err)
			return nil, Batch{}, r.last
		}
		r.fillInstant(f)
		return nil, r.give(f), nil
	}
	r.asked = true
	return f, Batch{}, nil
}

// give marks f as held and returns its batch. l.mu is held.
func (r *Run) give(f *fill) Batch {
	f.state = held
	r.given++
	slot := r.ring[f.step%len(r.ring)]
	return Batch{Slot: slot, Step: f.step, Rows: f.rows, Indices: f.indices[:f.rows:f.rows]}
}

// over returns the error that ends a call of Next with ctx, or nil. l.mu is held.
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

// take returns the batch in f, or the error that ended the wait.
func (r *Run) take(ctx context.Context, f *fill, waited time.Duration) (Batch, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.asked = false
	if waited > 0 {
		r.waited += waited
		r.l.adapt(r)
	}
	if err := r.over(ctx); err != nil {
		if f.state == filled && len(f.done) == 0 {
			f.done <- struct{}{} // the next call returns this batch
		}
		return Batch{}, err
	}
	if r.failed.Load() < r.position(f.step+1, -1) {
		r.last = r.err
		return Batch{}, r.last
	}
	return r.give(f), nil
}

// Indices returns the indices of the samples of a step, in the order of its rows, whether Next has
// returned its batch or not, in a new slice; nil if the epoch has no such step. Call it before the
// run is closed.
func (r *Run) Indices(step int) []int {
	if r == nil || r.l == nil || step < 0 || step >= r.l.steps {
		return nil
	}
	first, rows := r.l.cut.rows(step)
	all := make([]int, rows)
	if fillIndices(all, r.seq, first, r.l.samples) != nil {
		return nil // a worker reports the error
	}
	return all
}

// Release gives a slot back. Workers refill it after ready.Sync returns, or at once if ready is
// nil. If Sync fails, Next returns a *SlotError in place of the batch that was to fill the slot.
// Release does not wait and allocates nothing. A slot that the caller does not hold is an error
// that wraps ErrSlot.
//
// After the last steps of an epoch there is no batch to refill the slot with, so no worker calls
// ready.Sync. For these slots, pass ready in Slot.Ready to the next call of Epoch.
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

// Close ends the run and waits until no worker reads or writes for it. A second call is allowed.
//
// If a Fetch or a Sync has not returned within Options.Grace, Close returns a *StuckError that
// names it. Until Stuck returns nil, that Fetch may still write to its row: keep the slots
// allocated and do not rely on their contents. The loader can be used again when the Fetch or Sync
// has returned.
func (r *Run) Close() error {
	if r == nil || r.l == nil {
		return nil
	}
	l := r.l
	l.mu.Lock()
	if !r.closed {
		r.closed = true
		r.stopClock()
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
			// A worker that is not in code of the dataset returns soon: wait another Grace.
			if e := r.stuck(); e != nil && len(e.Blocked) > 0 {
				return e
			}
		}
	}
}

// settle ends a closed run when no worker works for it, and drops all references to the caller's
// memory. l.mu is held.
func (r *Run) settle() {
	if !r.closed || r.busy > 0 {
		return
	}
	for i := range r.fills {
		r.fills[i].slot, r.fills[i].ready = Slot{}, nil
	}
	close(r.quiet)
}

// Stuck returns a *StuckError while a worker of a closed run has not returned, else nil. Until then
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

// stuck is Stuck with the concrete type.
func (r *Run) stuck() *StuckError {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if !r.closed || r.busy == 0 {
		return nil
	}
	return r.l.blocked()
}
