package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// Steps passes the steps of a loop over t on. It takes a checkpoint after the body of a step if one
// is due, and after the last step, whether the loop ends there or its body leaves it. Training
// waits while the state is copied, and not for the disk: a checkpoint that is due while one is
// being written is taken when that is done.
//
// When Options.Stop is closed, or ctx is done, the body of the step that runs is the last one: a
// checkpoint is written, and the loop ends, without an error for Stop, and with that of ctx. If ctx
// ends the loop over t itself, between two steps, the last checkpoint is an earlier one.
//
// With Options.Rollback, steps is ranged over again after a fault in the numbers, from the epoch
// and step of the checkpoint: loop.Until goes on there.
//
// The first error is yielded with a zero Step, and nothing after it. A folder whose checkpoints are
// not resumed is an *OccupiedError. What limits the steps, such as loop.Within, belongs around
// Steps and not in it, so that the last checkpoint goes on within the epoch.
func (f *Folder) Steps(ctx context.Context, t *trainer.Trainer, steps loop.Steps) loop.Steps {
	return func(yield func(trainer.Step, error) bool) {
		err := f.begin(ctx, t)
		if err == nil && steps == nil {
			err = fmt.Errorf("no steps: %w", trainer.ErrOption)
		}
		if err != nil {
			yield(trainer.Step{}, err)
			return
		}
		var own decision
		if f.halted() {
			own = stops
		}
		switch d, err := f.decide(own, func() decision { return stops }); {
		case err != nil:
			yield(trainer.Step{}, err)
			return
		case d&stops != 0:
			f.halt()
			return
		}
		r := run{f: f, t: t, yield: yield}
		for r.pass(ctx, steps) {
		}
	}
}

// begin prepares a loop over t. The first time it begins the intervals, and takes the checkpoint
// that a rollback needs before any other is due. A trainer that plans no memory for checkpoints, or
// that is at an earlier step than the newest checkpoint, is an error.
func (f *Folder) begin(ctx context.Context, t *trainer.Trainer) error {
	return f.abort(f.beginAlone(ctx, t))
}

// beginAlone is begin, of a rank that ends no other.
func (f *Folder) beginAlone(ctx context.Context, t *trainer.Trainer) error {
	if ctx == nil {
		return errNilContext
	}
	if f.opt.ReadOnly && !f.isClosed() {
		step := t.Stats().Steps
		return &SaveError{Path: f.path(step), Step: step, Err: &ReadOnlyError{Dir: f.dir}}
	}
	if err := f.usable(); err != nil {
		return err
	}
	if f.begun {
		return nil
	}
	f.writer.wait()
	// A State that someone else holds is no reason not to begin.
	state, err := t.Capture(ctx)
	if err != nil && !errors.Is(err, trainer.ErrBusy) {
		return err
	}
	state.Release()
	steps := t.Stats().Steps
	if newest := f.newest(); newest.Step > steps && !f.opt.follows() {
		return &OccupiedError{Dir: f.dir, Newest: newest.Name}
	}
	f.begun = true
	f.schedule.start(steps, int64(t.Position().Epoch), f.now())
	if f.opt.Rollback.Times == 0 || len(f.Checkpoints()) > 0 {
		return nil
	}
	if err := f.take(ctx, t); err != nil {
		return err
	}
	return f.fail(f.Wait())
}

// usable returns an error if the folder may not be written to.
func (f *Folder) usable() error {
	switch {
	case f.isClosed():
		return f.errClosed()
	case f.occupied != "":
		return &OccupiedError{Dir: f.dir, Newest: f.occupied}
	}
	return nil
}

// fail returns the error of a checkpoint that could not be written if Options.Fail is set.
func (f *Folder) fail(err error) error {
	if f.opt.Fail {
		return err
	}
	return nil
}

// halted reports whether Options.Stop is closed.
func (f *Folder) halted() bool {
	select {
	case <-f.opt.Stop:
		return true
	default: // also of a nil channel
		return false
	}
}

// halt notes that Options.Stop has ended a loop.
func (f *Folder) halt() {
	f.mu.Lock()
	f.stopped = true
	last := f.stats.Last
	f.mu.Unlock()
	f.log.Info("stopped", "checkpoint", last.Name)
}

// run is a loop of Folder.Steps.
type run struct {
	f     *Folder
	t     *trainer.Trainer
	yield func(trainer.Step, error) bool
	last  int64 // number of the last step, 0: none
}

// pass ranges over the steps once. It returns true if a fault was rolled back, so that they go on
// from a checkpoint.
func (r *run) pass(ctx context.Context, steps loop.Steps) (again bool) {
	f := r.f
	for step, err := range steps {
		if err != nil {
			if again, err = f.rollback(ctx, r.t, err); !again {
				r.yield(trainer.Step{}, err)
			}
			return again
		}
		r.last = step.Number
		goes := r.yield(step, nil)
		switch stop, err := f.after(ctx, r.t, step, !goes); {
		case !goes: // Err has the error
			return false
		case err != nil:
			r.yield(trainer.Step{}, err)
			return false
		case stop:
			return false
		}
	}
	if r.last > 0 {
		if err := f.finish(ctx, r.t, r.last, f.opt.Fail); err != nil {
			r.yield(trainer.Step{}, err)
		}
	}
	return false
}

// after follows the body of a step. It takes a checkpoint if one is due; stop is set if the loop
// ends here. left says that the body has left the loop.
func (f *Folder) after(ctx context.Context, t *trainer.Trainer, step trainer.Step, left bool) (stop bool, err error) {
	if f.opt.grouped() {
		return f.afterTogether(ctx, t, step, left, false)
	}
	switch {
	case left:
		return true, f.finish(ctx, t, step.Number, f.opt.Fail)
	case ctx.Err() != nil:
		// The error of ctx is that of the loop, whether the checkpoint is written or not.
		_ = f.finish(ctx, t, step.Number, true)
		return true, ctx.Err()
	case f.halted():
		err := f.finish(ctx, t, step.Number, true)
		f.halt()
		return true, err
	}
	if f.isClosed() { // in the body
		return true, f.errClosed()
	}
	if err := f.fail(f.Err()); err != nil {
		return true, err
	}
	if !f.due(step.Number, epochAfter(step)) {
		return false, nil
	}
	return false, f.take(ctx, t)
}

// epochAfter returns the number of epochs that have ended with a step.
func epochAfter(step trainer.Step) int64 {
	if step.Step == step.Steps {
		return int64(step.Epoch) + 1
	}
	return int64(step.Epoch)
}

// due reports whether a checkpoint is due and can be taken now.
func (f *Folder) due(step, epoch int64) bool {
	if !f.requested.Load() && !f.schedule.due(step, epoch) && (f.schedule.time == 0 || !f.schedule.dueAt(f.now())) {
		f.waiting = false
		return false
	}
	if f.writer.free() {
		f.waiting = false
		return true
	}
	if !f.waiting {
		f.waiting = true
		f.mu.Lock()
		f.stats.PutOff++
		f.mu.Unlock()
	}
	return false
}

// finish takes the checkpoint at the end of a loop, unless the last one is of the same step and is
// written or being written. It waits for the one before, and for the new one if wait is set. It
// returns the error of writing if Options.Fail is set, and that of the trainer.
func (f *Folder) finish(ctx context.Context, t *trainer.Trainer, step int64, wait bool) error {
	if f.opt.grouped() {
		_, err := f.takeTogether(ctx, t, f.unfinished(step), nil)
		return err
	}
	if wait || f.captured != step {
		f.writer.wait()
	}
	if f.captured != step || f.writer.free() && f.Err() != nil {
		// The context may be done: that is why the loop ends.
		if err := f.take(context.WithoutCancel(ctx), t); err != nil {
			return err
		}
	}
	if wait {
		f.writer.wait()
	}
	return f.fail(f.Err())
}
