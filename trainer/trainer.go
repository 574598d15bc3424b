package trainer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/profile"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Trainer owns a model's memory and programs. Its methods may be called from any goroutine. One
// pass of Fit, Steps or Evaluate runs at a time; calls that need the device meanwhile return ErrBusy.
// While the body of a loop over Steps runs, its pass is paused and does not count.
type Trainer struct {
	plan  *planned // nil unless New made the trainer
	usage usage    // who has the device

	// Only the caller that has the device uses these.
	memory    *memory
	streams   streams
	slots     []*slot
	programs  programs
	short     shortPrograms
	loaders   loaders
	residents residents
	own       ownSteps
	copies    paramCopies
	captures  captures
	buffer    []byte        // see readBuffer
	peak      *profile.Peak // of the device; nil: not measured yet

	// These have locks of their own.
	staging  hostBatches
	uploaded atomic.Int64 // bytes of samples copied to the device

	// mu guards what follows, and changes of plan, programs and memory. It is held for moments
	// only, never while anything is uploaded, compiled or run.
	mu       sync.Mutex
	counters counters
	kept     keptValues
	looks    int // of awaitIdle at steps in flight
	// unfinished is the epoch that the next pass of training goes on with, after Restore; else nil.
	unfinished *unfinishedEpoch
}

// counters count what a trainer has done.
type counters struct {
	epochs  int     // epochs that Fit and Steps have begun
	steps   int64   // of training, finished
	updates []int64 // by objective, since New or Unfreeze
	before  int64   // updates before Unfreeze
	scaling optim.ScalingState
	// nonFinite counts, by objective, its last steps in a row that Options.SkipNonFinite skipped.
	nonFinite  []int
	order      uint64    // of samples: RestoreOptions.Order
	rateFactor float64   // of all rates: the product of RestoreOptions.RateFactor
	data       *DataInfo // of the last epoch that was begun, nil if unknown
}

// New compiles the model, plans its memory, allocates it on the device in one piece, and writes the
// initial values. If the plan needs more than Options.Memory or than the device has free, it
// allocates nothing and returns a *CapacityError. Cancelling ctx stops the planning.
func New(ctx context.Context, model ModelFunc, opt Options) (_ *Trainer, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	plan, err := planFor(ctx, model, &opt)
	if err != nil {
		return nil, err
	}
	plan.cache = nil // the trainer keeps the programs of this plan only
	// Nothing is allocated on the device up to here, and everything that is from here on belongs to
	// t, so that Close releases it after an error.
	t := &Trainer{plan: plan, programs: make(programs)}
	t.memory = &memory{plan: plan, device: opt.Device, unified: opt.Device.Unified()}
	t.loaders.opt = &t.plan.opt
	t.residents = residents{memory: t.memory, loaders: &t.loaders, bytes: &t.uploaded}
	t.residents.done = make([]bool, len(opt.Resident))
	if opt.scaled() {
		t.counters.scaling = opt.LossScale.Start()
	}
	t.counters.updates = make([]int64, plan.objectives(compile.Train))
	t.counters.nonFinite, t.counters.rateFactor = make([]int, plan.objectives(compile.Train)), 1
	t.usage.open()
	opened := false
	defer func() {
		if !opened { // after an error, or a panic of a model or an initial distribution
			err = errors.Join(err, t.Close())
		}
	}()
	if err := t.open(ctx); err != nil {
		t.left(err, true)
		return nil, err
	}
	opened = true
	t.logMade()
	return t, nil
}

// planFor plans for New. The other ranks of a group wait meanwhile, and end if it fails.
func planFor(ctx context.Context, model ModelFunc, opt *Options) (plan *planned, err error) {
	returned := false
	defer opt.busy("plans")()
	defer func() { opt.left(err, returned) }() // a model function may end its goroutine
	err = opt.check(true)
	if err == nil {
		plan, err = newPlanned(ctx, model, *opt, &programCache{complete: true})
	}
	if err == nil {
		err = plan.checkCapacity(ctx)
	}
	returned = true
	return plan, err
}

// open makes everything on the device. After an error, Close releases what was made.
func (t *Trainer) open(ctx context.Context) (err error) {
	if err := t.memory.open(); err != nil {
		return err
	}
	if err := t.streams.open(t.memory.device); err != nil {
		return err
	}
	t.slots = make([]*slot, t.plan.opt.slots())
	for i := range t.slots {
		if t.slots[i], err = newSlot(t.memory, i, t.plan.opt.room()); err != nil {
			return err
		}
	}
	for _, k := range t.plan.order {
		p, err := bind(t.memory, k, t.plan.programs[k], t.slots[:])
		if err != nil {
			return err
		}
		t.programs[k] = p
	}
	if err := t.captures.open(t.memory); err != nil {
		return err
	}
	if err := t.compareRanks(ctx); err != nil {
		return err
	}
	return t.memory.writeInitialValues(t.streams.compute)
}

// Plan returns the memory plan of the arena. It may be called while a pass runs, and after Close.
func (t *Trainer) Plan() *report.Plan {
	if t == nil {
		return &report.Plan{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plan == nil {
		return &report.Plan{}
	}
	return t.plan.report()
}

// LossScale returns the state of loss scaling; the zero state if the loss is not scaled. A trainer
// whose Options.LossScale.State is that state continues from it.
func (t *Trainer) LossScale() optim.ScalingState {
	if t == nil {
		return optim.ScalingState{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counters.scaling
}

// Close releases everything that New made; the device stays open. It is safe to call twice. While
// Fit, Steps, Evaluate, Step, a batch of Predict or an access to a parameter runs, or while a State is
// not released, it returns ErrBusy: cancel the contexts and wait until the calls have returned. If a Dataset.Fetch has not returned, the error
// wraps dataloader.ErrStuck and the memory stays, since the Fetch may still write to it. Call Close
// again until it returns nil.
func (t *Trainer) Close() error {
	if t == nil || t.plan == nil {
		return nil // New did not make it
	}
	first, err := t.usage.beginClose()
	if err != nil {
		return err
	}
	defer t.usage.release()
	// The order matters. Loaders are first, since their readers write to the slots. Streams wait
	// for their work before programs and events go, which that work uses. The memory is last.
	errs := []error{t.loaders.close()}
	if first {
		errs = append(errs, t.streams.close(), t.programs.close(), t.copies.close(), t.captures.close())
		t.own.batches.close()
		t.staging.drop()
		t.mu.Lock() // Read reads results
		for _, s := range t.slots {
			errs = append(errs, s.close())
		}
		t.mu.Unlock()
	}
	if len(t.loaders.open) == 0 {
		t.mu.Lock() // Stats reads the memory
		defer t.mu.Unlock()
		errs = append(errs, t.memory.close())
	}
	return errors.Join(errs...)
}
