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

// Tail selects what a loader does with the samples that do not fill a batch.
type Tail uint8

const (
	// KeepTail puts them into a last batch with fewer rows.
	KeepTail Tail = iota
	// DropTail leaves them out of the epoch. With Shuffle these are other samples in each epoch.
	DropTail
)

// Options of a Loader.
type Options struct {
	Batch   int           // samples in a batch, 1 or more
	Shuffle bool          // use a new order in each epoch, fixed by Seed and epoch; false: the order of the dataset
	Seed    uint64        // seed of the order and of the random draws of samples (At.Rand)
	Workers int           // goroutines that fetch; 0: half of GOMAXPROCS, rounded up, at most 8. Results do not depend on it
	Tail    Tail          // the last, short batch; default KeepTail
	Grace   time.Duration // time that Close waits for a Fetch or Sync to return; 0: 500 ms
}

// MaxWorkers is the largest Options.Workers. New refuses more, which would be a mistake.
const MaxWorkers = 4096

// errNoContext is the error for a nil context.
var errNoContext = fmt.Errorf("no context: use context.Background(): %w", ErrOption)

// Loader reads a dataset in batches, epoch after epoch, with the same workers. One epoch runs at a
// time. A Loader is safe for concurrent use.
type Loader struct {
	ds      Dataset
	opt     Options
	fields  []Field
	bytes   []int   // of one sample, by field
	instant instant // ds, if it is instant, else nil
	steps   int     // batches of an epoch
	samples int
	order   []int32 // indices of an epoch, position by position; nil: the order of the dataset
	ordered int     // the epoch that order is of; -1: none yet. mu guards it
	workers []*worker
	gone    chan struct{} // closed when the last worker has returned

	mu   sync.Mutex
	wake sync.Cond // signals work, or that the loader is closed
	run  *Run      // the current or latest epoch
	live int       // workers that have not returned
	// indices are those of the batches in the slots, kept from run to run; nil if order has them.
	indices [][]int32
	closed  bool
}

// New validates the dataset and the options and starts the workers, which wait for Epoch. It
// allocates 4 bytes a sample for the order if Options.Shuffle is set, else 4 bytes a row of a
// batch. The caller must Close the loader, which stops the workers.
func New(ds Dataset, opt Options) (*Loader, error) {
	if err := errors.Join(Check(ds), opt.check()); err != nil {
		return nil, err
	}
	n, fields, err := describe(ds)
	if err != nil {
		return nil, err
	}
	if opt.Tail == DropTail && n < opt.Batch {
		return nil, fmt.Errorf("%d samples, batch %d: keep the tail, or set a batch of at most %d: %w", n, opt.Batch, n, ErrShort)
	}
	if opt.Workers == 0 {
		opt.Workers = min((runtime.GOMAXPROCS(0)+1)/2, 8)
	}
	if opt.Grace == 0 {
		opt.Grace = 500 * time.Millisecond
	}
	l := &Loader{ds: ds, opt: opt, fields: fields, ordered: -1, gone: make(chan struct{})}
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
	l.samples = n
	if opt.Shuffle {
		l.order = make([]int32, n)
	}
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

// instant is a dataset whose samples need no time to compute. Next writes them itself if the slot
// is free, which costs less than waking a worker.
type instant interface {
	fill(fields [][]byte, samples []int32) // writes the samples to the first rows of each field
}

// describe returns the length and a copy of the fields of ds, or an error that wraps ErrChanged if
// Check would no longer accept them.
func describe(ds Dataset) (n int, fields []Field, err error) {
	defer blame(ds, &err)
	n, fields = ds.Len(), slices.Clone(ds.Fields())
	for k := range fields {
		fields[k].Shape = slices.Clone(fields[k].Shape)
	}
	if n < 1 || int64(n) > math.MaxInt32 || checkFields(fields) != nil {
		return 0, nil, fmt.Errorf("dataset of type %T: its length or fields differ between two calls: %w", ds, ErrChanged)
	}
	return n, fields, nil
}

// check returns every mistake in the options.
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
	if o.Workers < 0 || o.Workers > MaxWorkers {
		bad("workers", o.Workers, fmt.Sprintf("0 (default) to %d", MaxWorkers))
	}
	if o.Tail > DropTail {
		bad("tail", o.Tail, "KeepTail or DropTail")
	}
	if o.Grace < 0 {
		bad("grace", o.Grace, "0 (default) or more")
	}
	return errors.Join(errs...)
}

// Steps returns the number of batches in an epoch.
func (l *Loader) Steps() int { return l.steps }

// Dropped returns the number of samples that an epoch leaves out: 0 unless Options.Tail is
// DropTail.
func (l *Loader) Dropped() int { return l.samples - min(l.samples, l.steps*l.opt.Batch) }

// Bytes returns the bytes of Go memory that the loader keeps for indices of samples: those of an
// epoch if Options.Shuffle is set, else those of the batches in the slots.
func (l *Loader) Bytes() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes = 4 * int64(cap(l.order))
	for _, s := range l.indices {
		bytes += 4 * int64(cap(s))
	}
	return bytes
}

// index returns the index of the sample at a position of the epoch.
func (l *Loader) index(position int) int {
	if l.order == nil {
		return position
	}
	return int(l.order[position])
}

// indicesOf returns the indices of the rows samples from a position on, for the batch in slot i.
// l.mu is held.
func (l *Loader) indicesOf(i, position, rows int) []int32 {
	if l.order != nil {
		return l.order[position : position+rows : position+rows]
	}
	s := l.indices[i][:rows:rows]
	for k := range s {
		s[k] = int32(position + k)
	}
	return s
}

// Workers returns the number of workers.
func (l *Loader) Workers() int { return len(l.workers) }

// Epoch starts pass number epoch over the data and returns at once. Workers fill the slots in the
// order of steps. With n slots, up to n batches exist at one time: being filled, waiting for Next,
// or held by the caller. Two are usual. The caller owns the memory of the slots, which must not
// overlap and is written until the run is closed.
//
// ctx is passed to every Fetch; when it is done, the run ends. The run must be closed before the
// next epoch, otherwise the error wraps ErrBusy. If the dataset has changed since New, Epoch or
// Next returns a *ChangedError.
//
// Epoch starts no goroutine, and its allocations do not depend on the number of steps.
func (l *Loader) Epoch(ctx context.Context, epoch int, slots []Slot) (*Run, error) {
	return l.EpochFrom(ctx, epoch, 0, slots)
}

// EpochFrom is Epoch without the first batches: it starts at batch number step, counted from 0, of
// the same batches. So an epoch that was interrupted before that step can go on. step is 0 to
// Steps(); at Steps() no batch is left and Next returns io.EOF at once. Any other step is an error
// that wraps ErrOption. Nothing is read of the batches before step.
func (l *Loader) EpochFrom(ctx context.Context, epoch, step int, slots []Slot) (*Run, error) {
	if l == nil || l.gone == nil {
		return nil, fmt.Errorf("loader: use New: %w", ErrOption)
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
	if step < 0 || step > l.steps {
		return nil, fmt.Errorf("epoch %d: step %d: must be 0 to %d: %w", epoch, step, l.steps, ErrOption)
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
	if l.opt.Shuffle && l.ordered != epoch { // an epoch that goes on has its order already
		shuffle(l.order, l.opt.Seed, epoch)
		l.ordered = epoch
	}
	for l.order == nil && len(l.indices) < len(slots) {
		l.indices = append(l.indices, make([]int32, min(l.opt.Batch, l.samples)))
	}
	l.run = newRun(ctx, l, epoch, step, slots)
	l.wake.Broadcast()
	return l.run, nil
}

// checkSlots returns an error for every slot that cannot hold a batch.
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

// blocked lists the workers whose calls of foreign code have not returned. l.mu is held.
func (l *Loader) blocked() *StuckError {
	e := new(StuckError)
	for _, w := range l.workers {
		if s := w.sample.Load(); s != idle {
			e.Blocked = append(e.Blocked, Blocked{Worker: w.id, Index: int(s)})
		}
	}
	return e
}

// Close closes the current run, stops the workers and waits for them. If a Fetch or a Sync has not
// returned within Options.Grace, Close returns a *StuckError, and the worker ends when that Fetch
// or Sync returns. A second call is allowed.
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
	<-l.gone // no worker is in code of the dataset, so that the wait is short
	return nil
}
