package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Trainer holds a model's memory and programs. Its methods may be called from any goroutine. One pass (Fit, Evaluate) runs at a
// time: what is called meanwhile returns ErrBusy.
type Trainer struct {
	*build
	device  kernels.Device
	unified bool
	arena   *arena.Arena
	pinned  arena.Memory           // host twins of both slots and of what is read after a step; nil on unified devices
	touch   func(arena.Span, bool) // tells a device that checks it what the host reads and writes; nil: nobody asks
	copies  arena.Stream           // uploads
	compute arena.Stream           // programs
	slot    [2]*slot               // the staging places
	bound   map[key]*pair          // programs, ready to launch
	loaders []loader               // of datasets seen by Fit and Evaluate

	inFlight int64        // steps
	resident []bool       // by resident dataset: it is on the device
	uploaded atomic.Int64 // bytes of samples that crossed to the device

	mu      sync.Mutex
	running string // the pass that runs now
	closed  bool
	epoch   int   // next epoch of Fit
	trained int64 // finished steps of training
	updates int64 // finished updates
	scaling optim.ScalingState
	stages  []*stage        // host memory of finished predictions
	last    kept            // where the values of the step collected last are
	shown   bool            // Kept has given out a handle that is not stale yet
	stuck   *dataloader.Run // of a pass that left a reader behind, which may still write to a slot
}

// New compiles the model, plans its memory, allocates it on the device in one piece, and writes the initial values. Where the plan
// needs more than Options.Memory or the device has, it returns a *CapacityError, before anything is allocated.
func New(model ModelFunc, opt Options) (_ *Trainer, err error) {
	ctx := context.Background()
	b, err := newBuild(ctx, model, opt, true)
	if err != nil {
		return nil, err
	}
	if err := b.fits(ctx); err != nil {
		return nil, err
	}
	t := &Trainer{build: b, device: opt.Device, unified: opt.Device.Unified(), bound: make(map[key]*pair),
		resident: make([]bool, len(opt.Resident))}
	if opt.scaled() {
		t.scaling = opt.LossScale.Start()
	}
	if d, ok := opt.Device.(kernels.HostAccessChecker); ok && !t.unified {
		t.touch = d.Touch
	}
	opened := false
	defer func() {
		if !opened { // an error, or a panic in the code of a model or an initial distribution
			err = errors.Join(err, t.Close())
		}
	}()
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	opened = true
	return t, nil
}

// open makes everything on the device. What it made before an error, Close releases.
func (t *Trainer) open(ctx context.Context) (err error) {
	if t.arena, err = arena.New(t.device, &t.layout, t.opt.Memory); err != nil {
		return err
	}
	if t.copies, err = t.device.NewStream("copy"); err != nil {
		return fmt.Errorf("copy stream: %w", err)
	}
	if t.compute, err = t.device.NewStream("compute"); err != nil {
		return fmt.Errorf("compute stream: %w", err)
	}
	if err := t.openSlots(); err != nil {
		return err
	}
	for _, k := range t.order {
		if err := t.bind(k); err != nil {
			return err
		}
	}
	return t.initialise()
}

// Plan returns what every byte is for.
func (t *Trainer) Plan() *report.Plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.build == nil {
		return &report.Plan{}
	}
	return t.report()
}

// Stats are a trainer's counters.
type Stats struct {
	Arena    arena.Stats // bytes of device memory
	Pinned   int64       // bytes of pinned host memory, the arena's and the device's own included
	Uploaded int64       // bytes of samples that crossed to the device so far; on unified devices, that were written to their slot
	Updates  int64       // of the parameters so far; none where all are frozen
	Epochs   int         // finished or begun by Fit
	Programs int         // compiled so far
}

// Stats returns the counters as they are now.
func (t *Trainer) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Uploaded: t.uploaded.Load(), Updates: t.updates, Epochs: t.epoch, Programs: len(t.bound), Pinned: t.pinnedBytes()}
	if t.arena != nil {
		s.Arena = t.arena.Stats()
		s.Pinned += s.Arena.Pinned
	}
	return s
}

// LossScale returns how far loss scaling has come; the zero state where the loss is not scaled. A trainer that is given it as
// Options.LossScale.State goes on from there.
func (t *Trainer) LossScale() optim.ScalingState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scaling
}

// Result is what a pass found: sums over samples divided by their number. Beside an error it counts the steps that were finished.
type Result struct {
	Loss     float64 // mean over the samples
	Accuracy float64 // share of right outputs; NaN where the model has no Correct
	Samples  int
	Steps    int
	Skipped  int   // updates, since gradients overflowed at the scale of the loss
	Dropped  int   // samples that Options.Tail left out
	Epoch    int   // of Fit, from 0
	Uploaded int64 // bytes of samples that crossed to the device
}

// Fit trains one epoch. The order of samples is a function of Options.Seed and the number of the epoch, which counts up from 0. On an
// error or a done context, parameters are as the last finished step left them, and the epoch counts as begun. Where all parameters are frozen it moves
// running statistics only, if there are any that are not frozen.
func (t *Trainer) Fit(ctx context.Context, ds dataloader.Dataset) (Result, error) {
	return t.pass(ctx, "Fit", compile.Train, ds)
}

// Evaluate measures loss and accuracy. It changes nothing.
func (t *Trainer) Evaluate(ctx context.Context, ds dataloader.Dataset) (Result, error) {
	return t.pass(ctx, "Evaluate", compile.Evaluate, ds)
}

// pass runs all batches of ds through the programs of mode.
func (t *Trainer) pass(ctx context.Context, name string, mode compile.Mode, ds dataloader.Dataset) (res Result, err error) {
	if ctx == nil {
		return Result{}, fmt.Errorf("%s: nil context: %w", name, ErrOption)
	}
	if err := t.begin(name); err != nil {
		return Result{}, err
	}
	defer t.end()
	if err := t.compute.Sync(); err != nil { // a device that was closed has taken the slots with it: nothing may be written there
		return Result{}, fmt.Errorf("%v: %w", mode, err)
	}
	w, err := t.prepare(ctx, mode, ds)
	if err != nil {
		return Result{}, fmt.Errorf("%v: %w", mode, err)
	}
	if mode == compile.Train {
		w.epoch, w.before, w.updates = t.nextEpoch(), t.trained, t.updates
	}
	if err := w.run(ctx); err != nil {
		return w.result(), fmt.Errorf("%v epoch %d: %w", mode, w.epoch, err)
	}
	return w.result(), nil
}

// begin claims the trainer for a pass.
func (t *Trainer) begin(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.idle(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	t.running = name
	return nil
}

// idle returns an error where a pass runs, the trainer is closed, or a reader of an earlier pass has not come back. mu is held.
func (t *Trainer) idle() error {
	switch {
	case t.closed || t.build == nil:
		return ErrClosed
	case t.running != "":
		return fmt.Errorf("%s is running: %w", t.running, ErrBusy)
	case t.stuck != nil:
		if err := t.stuck.Stuck(); err != nil {
			return fmt.Errorf("a slot is still being written to: %w: %w", ErrBusy, err)
		}
		t.stuck = nil
	}
	return nil
}

func (t *Trainer) end() {
	t.mu.Lock()
	t.running = ""
	t.mu.Unlock()
}

func (t *Trainer) nextEpoch() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	return t.epoch - 1
}

// Close releases everything that New made, but not the device. It is safe to call twice; while Fit or Evaluate runs it returns ErrBusy: end
// them by their context first. Where a dataset's reader does not come back, the error wraps dataloader.ErrStuck and the memory stays,
// since the reader may still write to it; call Close again when it has returned.
func (t *Trainer) Close() error {
	if t == nil {
		return nil // of a New that failed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running != "" {
		return fmt.Errorf("close: %s is running: %w", t.running, ErrBusy)
	}
	var errs []error
	t.loaders = slices.DeleteFunc(t.loaders, func(l loader) bool {
		err := l.l.Close()
		errs = append(errs, err)
		return err == nil
	})
	if !t.closed {
		t.closed = true
		errs = append(errs, t.release())
	}
	if len(t.loaders) > 0 {
		return errors.Join(errs...)
	}
	if t.pinned != nil {
		errs = append(errs, t.pinned.Free())
		t.pinned = nil
	}
	if t.arena != nil {
		errs = append(errs, t.arena.Close())
	}
	return errors.Join(errs...)
}

// release closes streams, programs and events.
func (t *Trainer) release() error {
	var errs []error
	for _, s := range []arena.Stream{t.copies, t.compute} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, p := range t.bound {
		errs = append(errs, p.close())
	}
	for _, s := range t.slot {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
