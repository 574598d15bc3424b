package dataloader

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	Batch   int    // samples in a batch of one rank, 1 or more
	Shuffle bool   // use a new order in each epoch, fixed by Seed and epoch; false: the order of the dataset
	Seed    uint64 // seed of the order and of the random draws of samples (At.Rand)
	// Workers is the number of goroutines that fetch. 0: half of GOMAXPROCS, rounded up, at most 8 at
	// first, and one more while Next waits although all are busy, up to GOMAXPROCS. Results do not
	// depend on it. Data that come from far away may need more.
	Workers int
	Tail    Tail          // the last, short batch; default KeepTail
	Sampler Sampler       // chooses the samples of each epoch and their order instead of Shuffle; nil: every sample once
	Grace   time.Duration // time that Close waits for a Fetch or Sync to return; 0: 500 ms
	// Ranks is the number of processes that share each epoch, each with a loader of its own and a Rank
	// from 0; 0: 1. Step s of the epoch is a global batch of Batch·Ranks samples, whatever Ranks is.
	// It is cut into Ranks parts; where it does not divide evenly, at the end of the epoch, the first
	// ranks have one sample more, and a rank may have a batch of 0 rows. All ranks have the same steps.
	Rank, Ranks int
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
	bytes   []int         // of one sample, by field
	instant instant       // ds, if it is instant, else nil
	steps   int           // batches of an epoch
	samples int           // of ds
	cut     cut           // of an epoch into batches
	dropped int           // positions of an epoch that are in no batch
	blocks  *blockPlan    // of ds; nil: it has none, or a sampler chooses the order
	workers []*worker     // mu guards it
	growth  growth        // mu guards it
	gone    chan struct{} // closed when the last worker has returned
	timer   *time.Timer   // of Run.Await

	mu      sync.Mutex
	wake    sync.Cond // signals work, or that the loader is closed
	run     *Run      // the current or latest epoch
	live    int       // workers that have not returned
	seq     Sequence  // of the latest epoch
	ordered int       // the epoch that seq is of; -1: none yet
	indices [][]int   // of the batches in the slots, kept from run to run
	observe func(Filling)
	closed  bool
}

// New validates the dataset and the options and starts the workers, which wait for Epoch. The order
// is computed, so that it takes no memory but what a Sampler takes. The caller must Close the loader, which stops the workers.
func New(ds Dataset, opt Options) (*Loader, error) {
	if err := errors.Join(Check(ds), opt.check()); err != nil {
		return nil, err
	}
	n, fields, err := describe(ds)
	if err != nil {
		return nil, err
	}
	most := 0 // workers; 0: as many as there are
	if opt.Workers == 0 {
		opt.Workers, most = defaultWorkers()
	}
	if opt.Grace == 0 {
		opt.Grace = 500 * time.Millisecond
	}
	l := &Loader{ds: ds, opt: opt, fields: fields, ordered: -1, growth: growth{limit: most}, gone: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	l.timer.Stop()
	l.instant, _ = ds.(instant)
	for k, f := range l.fields {
		if f.Bytes() > math.MaxInt/int64(opt.Batch) {
			return nil, &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf("%d bytes × batch %d overflow", f.Bytes(), opt.Batch)}
		}
		l.bytes = append(l.bytes, int(f.Bytes()))
	}
	l.samples = n
	if err := l.divide(); err != nil {
		return nil, err
	}
	l.wake.L = &l.mu
	l.mu.Lock()
	defer l.mu.Unlock()
	for range opt.Workers {
		l.startWorker()
	}
	return l, nil
}

// divide reads the order of epoch 0 and cuts it into batches.
func (l *Loader) divide() (err error) {
	opt := &l.opt
	opt.Ranks = max(1, opt.Ranks)
	if int64(opt.Batch) > math.MaxInt/int64(opt.Ranks) {
		return fmt.Errorf("batch %d × %d ranks overflow: %w", opt.Batch, opt.Ranks, ErrOption)
	}
	if opt.Sampler == nil {
		if l.blocks, err = planBlocks(l.ds, l.samples); err != nil {
			return err
		}
	}
	if l.seq, err = l.sequence(0); err != nil {
		return err
	}
	l.ordered = 0
	n := l.seq.Len()
	l.cut = cut{positions: n, batch: opt.Batch, rank: opt.Rank, ranks: opt.Ranks}
	l.steps = l.cut.steps(opt.Tail)
	if l.steps == 0 {
		return fmt.Errorf("%d samples, batch %d: keep the tail, or set a batch of at most %d: %w", n, l.cut.global(), n, ErrShort)
	}
	if opt.Tail == DropTail {
		l.cut.positions = l.steps * l.cut.global()
	}
	l.dropped = n - l.cut.positions
	return nil
}

// instant is a dataset whose samples need no time to compute. Next writes them itself if the slot
// is free, which costs less than waking a worker.
type instant interface {
	fill(fields [][]byte, samples []int) // writes the samples to the first rows of each field
}

// describe returns the length and a copy of the fields of ds, or an error that wraps ErrChanged if
// Check would no longer accept them.
func describe(ds Dataset) (n int, fields []Field, err error) {
	defer blame(ds, &err)
	n, fields = ds.Len(), slices.Clone(ds.Fields())
	for k := range fields {
		fields[k].Shape = slices.Clone(fields[k].Shape)
	}
	if n < 1 || int64(n) > maxSamples || checkFields(fields) != nil {
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
	errs = append(errs, o.checkRanks())
	if o.Grace < 0 {
		bad("grace", o.Grace, "0 (default) or more")
	}
	return errors.Join(errs...)
}

// Steps returns the number of batches in an epoch.
func (l *Loader) Steps() int { return l.steps }

// Samples returns the number of samples of an epoch, of all ranks and with those that are left out:
// that of the dataset, or of the positions of Options.Sampler.
func (l *Loader) Samples() int { return l.cut.positions + l.dropped }

// Dropped returns the number of samples that an epoch leaves out, of all ranks: 0 unless Options.Tail
// is DropTail.
func (l *Loader) Dropped() int { return l.dropped }

// Bytes returns the bytes of Go memory that the loader keeps for the indices of the batches in the
// slots, and for the order of blocks if the dataset is [Blocked] and Options.Shuffle is set.
func (l *Loader) Bytes() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.indices {
		bytes += 8 * int64(cap(s))
	}
	if o, ok := l.seq.(*blockOrder); ok {
		bytes += o.bytes()
	}
	return bytes
}

// Workers returns the number of workers. If Options.Workers is 0, it may grow.
func (l *Loader) Workers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.workers)
}

// Epoch starts pass number epoch over the data and returns at once. Workers fill the slots in the
// order of steps. With n slots, up to n batches exist at one time: being filled, waiting for Next,
// or held by the caller. Two are usual. The caller owns the memory of the slots, which must not
// overlap and is written until the run is closed.
//
// ctx is passed to every Fetch; when it is done, the run ends. The run must be closed before the
// next epoch, otherwise the error wraps ErrBusy. If the dataset has changed since New, Epoch or
// Next returns a *ChangedError.
//
// The allocations of Epoch do not depend on the number of steps.
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
	seq, err := l.reorder(epoch)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.available(epoch); err != nil {
		return nil, err
	}
	l.seq, l.ordered = seq, epoch
	for len(l.indices) < len(slots) {
		l.indices = append(l.indices, make([]int, min(l.opt.Batch, l.cut.positions)))
	}
	l.run = newRun(ctx, l, epoch, step, slots)
	l.wake.Broadcast()
	return l.run, nil
}

// reorder returns the order of an epoch. An epoch that goes on has it already.
func (l *Loader) reorder(epoch int) (Sequence, error) {
	l.mu.Lock()
	err, seq, ordered := l.available(epoch), l.seq, l.ordered
	l.mu.Unlock()
	if err != nil || ordered == epoch {
		return seq, err
	}
	// Not under the lock: a sampler may take its time.
	seq, err = l.sequence(epoch)
	if err != nil {
		return nil, err
	}
	if n := seq.Len(); n != l.cut.positions+l.dropped {
		return nil, fmt.Errorf("sampler of type %T: epoch %d has %d positions, epoch 0 had %d: must be the same: %w",
			l.opt.Sampler, epoch, n, l.cut.positions+l.dropped, ErrOption)
	}
	return seq, nil
}

// available returns an error if no run can start. l.mu is held.
func (l *Loader) available(epoch int) error {
	switch {
	case l.closed:
		return fmt.Errorf("loader: %w", ErrClosed)
	case l.run != nil && !l.run.closed:
		return fmt.Errorf("close the run of epoch %d first: %w", l.run.epoch, ErrBusy)
	case l.run != nil && l.run.busy > 0:
		return fmt.Errorf("epoch %d: %w", l.run.epoch, l.blocked())
	}
	return nil
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
		switch s := w.sample.Load(); {
		case s >= 0:
			e.Blocked = append(e.Blocked, StuckCall{Worker: w.id, Index: int(s), Block: -1})
		case s == syncRow:
			e.Blocked = append(e.Blocked, StuckCall{Worker: w.id, Index: -1, Block: -1})
		case s != idle: // see blockRow
			e.Blocked = append(e.Blocked, StuckCall{Worker: w.id, Index: -1, Block: int(blockRow - s)})
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
