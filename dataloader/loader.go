package dataloader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Tail says what becomes of the samples that do not fill a batch.
type Tail uint8

const (
	// KeepTail makes them a last batch with fewer rows.
	KeepTail Tail = iota
	// DropTail leaves them out of the epoch; with Shuffle, others each time.
	DropTail
)

// Options of a Loader.
type Options struct {
	Batch   int           // samples of a batch, 1 or more
	Shuffle bool          // a new order every epoch, a function of Seed and epoch; false: the dataset's own order
	Seed    uint64        // of the order and of every At
	Workers int           // goroutines that fetch; 0: half of GOMAXPROCS, rounded up, at most 8. No result depends on it
	Tail    Tail          // what becomes of the last, short batch; default KeepTail
	Grace   time.Duration // how long Close waits for a Fetch that ignores its context; 0: 500 ms
}

// maxWorkers bounds Options.Workers against slips: more readers than this is a mistake in units.
const maxWorkers = 4096

// errNoContext is about a nil context.
var errNoContext = fmt.Errorf("no context: use context.Background(): %w", ErrOption)

// Loader reads a dataset in batches, epoch after epoch, with the same workers and buffers. One epoch runs at a time.
// Its methods may be called from any goroutine.
type Loader struct {
	ds      Dataset
	opt     Options
	fields  []Field
	bytes   []int   // of one sample, by field
	instant instant // ds, where it is so
	steps   int     // batches of an epoch
	order   []int32
	workers []*worker
	gone    chan struct{} // closed when the last worker has left

	mu     sync.Mutex
	wake   sync.Cond // there may be work, or the loader is closed
	run    *Run      // the current or latest epoch
	live   int       // workers that have not left
	closed bool
}

// New checks the dataset and the options and starts the workers, which wait until Epoch gives them work. It
// allocates 4 bytes a sample for the order. Close ends the workers.
func New(ds Dataset, opt Options) (*Loader, error) {
	if err := errors.Join(Check(ds), opt.check()); err != nil {
		return nil, err
	}
	n, fields, err := describe(ds)
	if err != nil {
		return nil, err
	}
	if opt.Tail == DropTail && n < opt.Batch {
		return nil, fmt.Errorf("%d samples, batch %d: keep the tail, or batch <= %d: %w", n, opt.Batch, n, ErrShort)
	}
	if opt.Workers == 0 {
		opt.Workers = min((runtime.GOMAXPROCS(0)+1)/2, 8)
	}
	if opt.Grace == 0 {
		opt.Grace = 500 * time.Millisecond
	}
	l := &Loader{ds: ds, opt: opt, fields: fields, gone: make(chan struct{})}
	l.instant, _ = ds.(instant)
	for k, f := range l.fields {
		if f.Bytes() > math.MaxInt/int64(opt.Batch) {
			return nil, &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf("%d bytes × batch %d overflow", f.Bytes(), opt.Batch)}
		}
		l.bytes = append(l.bytes, int(f.Bytes()))
	}
	l.steps = n / opt.Batch
	if opt.Tail == KeepTail && n%opt.Batch != 0 {
		l.steps++
	}
	l.order = make([]int32, n)
	identity(l.order)
	l.wake.L = &l.mu
	l.live = opt.Workers
	for i := range opt.Workers {
		w := &worker{id: i, dst: make([][]byte, len(l.fields))}
		w.sample.Store(idle)
		l.workers = append(l.workers, w)
		go l.serve(w)
	}
	return l, nil
}

// instant is a dataset whose samples take no time to make: Next writes them itself, in its caller, where the slot need not be waited
// for. That costs less than waking a worker.
type instant interface {
	fill(fields [][]byte, samples []int32) // writes the first rows of each field
}

// describe returns the length and the fields of ds, which Check has accepted, or a *ChangedError where they are others by now.
func describe(ds Dataset) (n int, fields []Field, err error) {
	defer blame(ds, &err)
	n, fields = ds.Len(), slices.Clone(ds.Fields())
	for k := range fields {
		fields[k].Shape = slices.Clone(fields[k].Shape)
	}
	if n < 1 || int64(n) > math.MaxInt32 || checkFields(fields) != nil {
		return 0, nil, fmt.Errorf("dataset of type %T answers otherwise each time it is asked: %w", ds, ErrChanged)
	}
	return n, fields, nil
}

func (o Options) check() error {
	var errs []error
	bad := func(name string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s %v: must be %s: %w", name, value, want, ErrOption))
	}
	if o.Batch < 1 {
		bad("batch", o.Batch, "1 or more")
	}
	if o.Batch > math.MaxInt32 {
		bad("batch", o.Batch, fmt.Sprintf("at most %d", math.MaxInt32))
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		bad("workers", o.Workers, fmt.Sprintf("0 (default) to %d", maxWorkers))
	}
	if o.Tail > DropTail {
		bad("tail", o.Tail, "KeepTail or DropTail")
	}
	if o.Grace < 0 {
		bad("grace", o.Grace, "0 (default) or more")
	}
	return errors.Join(errs...)
}

// Steps is the number of batches of an epoch.
func (l *Loader) Steps() int { return l.steps }

// Dropped is the number of samples that an epoch leaves out: 0 unless the tail is dropped.
func (l *Loader) Dropped() int { return len(l.order) - min(len(l.order), l.steps*l.opt.Batch) }

// Workers is the number of goroutines that fetch.
func (l *Loader) Workers() int { return len(l.workers) }

// Epoch starts pass number epoch over the data, into slots, and returns at once. Slots may not overlap, stay the
// caller's, and are written until the run is closed: at most len(slots) batches are under way, counting those that
// the caller holds. ctx goes to every Fetch; when it is done, the run ends. The run must be closed before the next epoch.
//
// A dataset that is not what it was when the loader was made is a *ChangedError, here or from Next.
//
// It starts no goroutine and its allocations do not depend on the number of steps.
func (l *Loader) Epoch(ctx context.Context, epoch int, slots []Slot) (*Run, error) {
	if l == nil || l.gone == nil {
		return nil, fmt.Errorf("the loader was not made: use New: %w", ErrOption)
	}
	if ctx == nil {
		return nil, fmt.Errorf("epoch %d: %w", epoch, errNoContext)
	}
	if err := l.changed(true); err != nil {
		return nil, err
	}
	if err := l.checkSlots(slots); err != nil {
		return nil, err
	}
	if epoch < 0 {
		return nil, fmt.Errorf("epoch %d: must be 0 or more: %w", epoch, ErrOption)
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, fmt.Errorf("loader: %w", ErrClosed)
	case l.run != nil && !l.run.closed:
		return nil, fmt.Errorf("close the run of epoch %d first: %w", l.run.epoch, ErrBusy)
	case l.run != nil && l.run.busy > 0:
		return nil, fmt.Errorf("epoch %d: %w", l.run.epoch, l.blocked())
	}
	if l.opt.Shuffle {
		shuffle(l.order, l.opt.Seed, epoch)
	}
	l.run = newRun(ctx, l, epoch, slots)
	l.wake.Broadcast()
	return l.run, nil
}

// checkSlots reports every slot that cannot hold a batch.
func (l *Loader) checkSlots(slots []Slot) error {
	if len(slots) == 0 {
		return fmt.Errorf("no slots: pass 1 or more: %w", ErrSlot)
	}
	var errs []error
	for i, s := range slots {
		if len(s.Fields) != len(l.fields) {
			errs = append(errs, fmt.Errorf("slot %d has %d fields, the dataset has %d: %w", i, len(s.Fields), len(l.fields), ErrSlot))
			continue
		}
		for k, b := range s.Fields {
			if need := l.bytes[k] * l.opt.Batch; len(b) < need {
				errs = append(errs, fmt.Errorf("slot %d field %d %q has %d bytes, batch %d needs %d: %w",
					i, k, l.fields[k].Name, len(b), l.opt.Batch, need, ErrSlot))
			}
		}
	}
	return errors.Join(errs...)
}

// blocked names the workers whose calls have not returned. l.mu is held.
func (l *Loader) blocked() *StuckError {
	e := new(StuckError)
	for _, w := range l.workers {
		if s := w.sample.Load(); s != idle {
			e.Blocked = append(e.Blocked, Blocked{Worker: w.id, Index: int(s)})
		}
	}
	return e
}

// Close closes the current run, ends the workers and returns when they have left. A worker whose Fetch ignores its
// context is left behind after Options.Grace, and the error is a *StuckError. Safe to call twice.
func (l *Loader) Close() error {
	if l == nil || l.gone == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	r := l.run
	l.wake.Broadcast()
	l.mu.Unlock()
	if r != nil {
		if err := r.Close(); err != nil {
			return err
		}
	}
	<-l.gone // Every worker is outside the dataset's code, so this is short.
	return nil
}
