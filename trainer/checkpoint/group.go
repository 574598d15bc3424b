package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
)

// With Options.Group the ranks take checkpoints together. The first rank leads: it sees the intervals
// and what was written. After each step all ranks learn what it has decided:
//
//	rank 0   step │ due? ─► take │ capture ───────┐ write
//	rank 1   step │      ─► take │ capture, drop ─┘
//
// If Stop of another rank is closed, that one asks, and the first rank decides again.

// decision is what the first rank has decided after a step.
type decision uint32

const (
	takes decision = 1 << iota // a checkpoint is taken
	stops                      // the loop ends
	asks                       // of another rank, whose Stop is closed; the greatest
)

// grouped reports whether ranks take checkpoints together.
func (o *Options) grouped() bool { return o.Group != nil && o.Group.Size() > 1 }

// follows reports whether another rank leads and writes.
func (o *Options) follows() bool { return o.grouped() && o.Group.Rank() > 0 }

// writes reports whether the folder may be written to by this rank.
func (o *Options) writes() bool { return !o.ReadOnly && !o.follows() }

// decide returns what the first rank passes as own, or, if Stop of another rank is closed, what stop
// returns on the first rank. A nil stop leaves that for later.
func (f *Folder) decide(own decision, stop func() decision) (d decision, err error) {
	if !f.opt.grouped() {
		return own, nil
	}
	if f.opt.follows() {
		own = 0
		if stop != nil && f.halted() {
			own = asks
		}
	}
	if d, err = f.greatest(own); err != nil || d != asks {
		return d, err
	}
	if own = 0; !f.opt.follows() {
		own = stop()
	}
	return f.greatest(own)
}

// greatest returns the greatest decision of all ranks.
func (f *Folder) greatest(own decision) (decision, error) {
	data := make([]byte, 4)
	binary.NativeEndian.PutUint32(data, uint32(own))
	err := group.Once(f.opt.Group, group.Op{Kind: group.Max, Type: arena.Int32, Data: data, Label: "checkpoint"})
	return decision(binary.NativeEndian.Uint32(data)), err
}

// abort ends the group if this rank cannot go on with the others. It returns err.
func (f *Folder) abort(err error) error {
	if f.opt.grouped() && err != nil {
		f.opt.Group.Abort(err)
	}
	return err
}

// openTogether lets the others open the folder after the first rank, which makes it, and returns an
// error on all ranks if one has an error.
func openTogether(dir string, opt Options) (f *Folder, err error) {
	if !opt.follows() {
		f, err = openAlone(dir, opt)
	}
	if err := agree(opt.Group, err); err != nil {
		return nil, closed(f, err)
	}
	if opt.follows() {
		f, err = openAlone(dir, opt)
	}
	if err := agree(opt.Group, err); err != nil {
		return nil, closed(f, err)
	}
	return f, nil
}

// closed closes a folder that another rank could not open.
func closed(f *Folder, err error) error {
	if f == nil {
		return err
	}
	return errors.Join(err, f.Close())
}

// agree returns an error if a rank has one: its own, or the first one's of another rank.
func agree(g group.Group, own error) error {
	rank, text, err := group.ExchangeErrors(context.Background(), g, own)
	if err == nil && rank >= 0 {
		err = fmt.Errorf("rank %d: %s: %w", rank, text, trainer.ErrOption)
	}
	return err
}

// follow takes a checkpoint if the first rank has decided so: see decide.
func (f *Folder) follow(ctx context.Context, t *trainer.Trainer, own decision, stop func() decision) (d decision, err error) {
	d, err = f.decide(own, stop)
	if err == nil && d&takes != 0 {
		err = f.take(context.WithoutCancel(ctx), t)
	}
	return d, err
}

// afterTogether is after for a group: it follows the body of a step. later says that checkpoints and
// stops wait for a later step.
func (f *Folder) afterTogether(ctx context.Context, t *trainer.Trainer, step trainer.Step, left, later bool) (stop bool, err error) {
	end := func() decision { return stops | f.unfinished(step.Number) }
	var own decision
	if !f.opt.follows() {
		switch {
		case left || ctx.Err() != nil || f.halted() && !later:
			own = end()
		case !later && !f.isClosed() && f.due(step.Number, epochAfter(step)):
			own = takes
		}
	}
	if later {
		end = nil
	}
	d, err := f.follow(ctx, t, own, end)
	if err != nil {
		return true, err
	}
	stop = left || d&stops != 0 || ctx.Err() != nil || f.isClosed()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case f.isClosed():
		err = f.errClosed()
	case d&stops != 0 && !left:
		f.halt()
	}
	if stop {
		f.writer.wait()
	}
	return stop, errors.Join(err, f.fail(f.Err()))
}

// unfinished returns takes unless the last checkpoint is of that step, and is written.
func (f *Folder) unfinished(step int64) decision {
	f.writer.wait()
	if f.captured != step || f.Err() != nil {
		return takes
	}
	return 0
}

// takeTogether is follow, and waits for the checkpoint.
func (f *Folder) takeTogether(ctx context.Context, t *trainer.Trainer, own decision, stop func() decision) (decision, error) {
	d, err := f.follow(ctx, t, own, stop)
	if err == nil {
		err = f.fail(f.Wait())
	}
	return d, err
}

// fitTogether is Fit for a group.
func (f *Folder) fitTogether(ctx context.Context, t *trainer.Trainer, ds dataloader.Dataset) (trainer.Result, error) {
	if err := f.begin(ctx, t); err != nil {
		return trainer.Result{}, err
	}
	if stop, err := f.betweenTogether(ctx, t, 0); stop || err != nil {
		return trainer.Result{}, err
	}
	begun, stopped, failed := t.Position(), false, error(nil)
	result, err := t.FitEach(ctx, ds, func(step trainer.Step) (goes bool) {
		if step.Step < step.Steps { // else the epoch is finished first
			// Within a window of Accumulate a state goes on with the same bits but for rounding.
			within := !step.Updated && !step.Skipped
			stopped, failed = f.afterTogether(ctx, t, step, false, within)
		}
		return !stopped
	})
	if err = errors.Join(failed, err); err != nil || stopped {
		if t.Position() != begun {
			f.brokenOff = t.Stats().Steps
		}
		return result, err
	}
	var own decision
	if !f.opt.follows() && f.due(t.Stats().Steps, int64(t.Position().Epoch)) {
		own = takes
	}
	_, err = f.betweenTogether(ctx, t, own)
	return result, err
}

// betweenTogether is between for a group, at any end of an epoch: the first rank passes as own what is
// taken also without a stop.
func (f *Folder) betweenTogether(ctx context.Context, t *trainer.Trainer, own decision) (stop bool, err error) {
	end := func() decision {
		d := own | stops
		if step := t.Stats().Steps; step > 0 && step != f.brokenOff {
			d |= f.unfinished(step)
		}
		return d
	}
	if f.halted() && !f.opt.follows() {
		own = end()
	}
	d, err := f.takeTogether(ctx, t, own, end)
	if stop = d&stops != 0; stop && err == nil {
		f.halt()
	}
	return stop, err
}
