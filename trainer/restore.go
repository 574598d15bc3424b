package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// StateSource is where Restore reads a state from: State.Source, or a file.
type StateSource interface {
	// Info returns the numbers of the state. Nobody changes afterwards what they refer to.
	Info() (Info, error)
	// Tensors returns the names, types and shapes of the tensors, in any order.
	Tensors() []NamedSpec
	// Read copies the bytes of a tensor, row-major, in the byte order of this machine, to dst,
	// which has its size.
	Read(name string, dst []byte) error
}

// RestoreOptions change what Restore does. The zero value continues exactly.
type RestoreOptions struct {
	// ParametersOnly restores parameters, constants, running statistics and averages. All else is
	// as New leaves it: the state of optimizers is zero, and counts begin at 0. So another
	// optimizer may go on with the parameters.
	ParametersOnly bool
	// NextEpoch begins with the next epoch instead of the rest of an unfinished one.
	NextEpoch bool
	// Order, unless it is 0, draws another order of the samples, and other augmentation, from the
	// restored step on, than all other values of Order. In the unfinished epoch some samples may
	// then be trained twice and others not at all. It is part of the state from then on. Default:
	// the order of the state.
	Order uint64
	// RateFactor multiplies all learning rates, after the schedule, from the restored step on. It
	// is part of the state from then on, and multiplies the factors of earlier restores. Above 0,
	// at most 1; 0 means 1.
	RateFactor float64
	// Data is the dataset that training goes on with. If it is not that of the state, Restored lists the
	// difference, and training goes on with the next epoch. nil: it is not compared; in the middle of
	// an epoch Fit and Steps refuse other data.
	Data dataloader.Dataset
}

// Restored says how training goes on after Restore.
type Restored struct {
	Position    Position     // where the next Fit or Steps begins
	Differences []Difference // between the trainer that the state is of and this one
}

// Difference is an option of the trainer that differs from that of the state.
type Difference struct {
	Name       string // of the option
	Saved, Now string
	Effect     string // what the difference does
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s was saved and %s is set: %s", d.Name, d.Saved, d.Now, d.Effect)
}

// Restore sets the complete state from a capture, of this trainer or of another one with the same
// model, which may be on another device: training goes on as if it had not stopped, with the same
// bits where devices compute the same bits. The next Fit or Steps begins at the step that was next
// when the state was captured, also in the middle of an epoch or of a window of Options.Accumulate,
// and its Result is that of the whole epoch; it must be over the same data.
//
// Restore changes everything or nothing, unless the device fails. What does not fit the model is a
// *RestoreError that lists all of it. Other options that are safe are listed in Restored: for
// example, with another batch size it goes on with the next epoch. While Fit, Steps, also its body,
// or Evaluate runs, it returns ErrBusy. It takes Go memory of the size of the state while it runs,
// unless Options.Checkpoint is set and no State is held.
func (t *Trainer) Restore(ctx context.Context, src StateSource, opt RestoreOptions) (Restored, error) {
	done, err := t.restore(ctx, src, opt)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	t.plan.opt.logger().Info("restored", "step", t.trainedSteps(), "differences", len(done.Differences))
	return done, nil
}

// restore is Restore, with errors that do not say so.
func (t *Trainer) restore(ctx context.Context, src StateSource, opt RestoreOptions) (Restored, error) {
	switch {
	case ctx == nil:
		return Restored{}, errNilContext
	case t.use().isClosed():
		return Restored{}, errClosed
	case src == nil:
		return Restored{}, fmt.Errorf("no source: %w", ErrOption)
	case opt.RateFactor != 0 && !(opt.RateFactor > 0 && opt.RateFactor <= 1):
		return Restored{}, fmt.Errorf("RateFactor %v: must be above 0 and at most 1, or 0 for 1: %w", opt.RateFactor, ErrOption)
	case t.usage.pausedPass() != nil:
		return Restored{}, fmt.Errorf("the trainer is %w: leave the loop over Steps first", ErrBusy)
	}
	if opt.Data != nil {
		if err := dataloader.Check(opt.Data); err != nil {
			return Restored{}, fmt.Errorf("RestoreOptions.Data: %w", err)
		}
	}
	info, err := src.Info()
	if err != nil {
		return Restored{}, err
	}
	r, err := t.newRestoration(info, src.Tensors(), opt)
	if err != nil {
		return Restored{}, err
	}
	// Everything is read before anything changes, and without the device, which the source may use.
	release, err := r.read(ctx, src)
	defer release()
	if err != nil {
		return Restored{}, err
	}
	if err := t.usage.acquire(ctx); err != nil {
		return Restored{}, err
	}
	defer t.usage.release()
	if t.usage.pausedPass() != nil {
		return Restored{}, fmt.Errorf("the trainer is %w: leave the loop over Steps first", ErrBusy)
	}
	t.own.changed = true
	if err := r.write(); err != nil {
		return Restored{}, err
	}
	return r.Restored, nil
}

// restoration is a state that fits a trainer, on its way to it.
type restoration struct {
	Restored
	trainer *Trainer
	opt     RestoreOptions
	info    Info
	exact   bool // the unfinished epoch and windows go on
	tensors []restoredTensor
}

// restoredTensor is a tensor of the trainer's state, and its new bytes.
type restoredTensor struct {
	stateTensor
	from string // name in the source
	data []byte
}

// read reads all tensors. The caller calls release, also after an error.
func (r *restoration) read(ctx context.Context, src StateSource) (release func(), err error) {
	t := r.trainer
	if own, ok := src.(stateSource); ok && own.trainer == t && t.usage.holds(own.State) {
		for i := range r.tensors {
			x := &r.tensors[i]
			k := slices.IndexFunc(own.tensors, func(s stateTensor) bool { return s.Name == x.from })
			x.data = own.Bytes(k)
		}
		return func() {}, ctx.Err()
	}
	// The memory for a capture is used if there is some.
	hold := &State{trainer: t}
	planned := t.plan.opt.Checkpoint && t.usage.hold(hold) == nil
	for i := range r.tensors {
		x := &r.tensors[i]
		if err := ctx.Err(); err != nil {
			return hold.Release, err
		}
		if planned {
			span := t.memory.stateSpan(x.offset, x.Spec.Bytes())
			t.memory.willWrite(span)
			x.data = bytesOf(span)
		} else {
			x.data = make([]byte, x.Spec.Bytes())
		}
		if err := src.Read(x.from, x.data); err != nil {
			return hold.Release, fmt.Errorf("%q: %w", x.from, err)
		}
	}
	return hold.Release, nil
}

// write writes the state to the trainer. The caller has the device.
func (r *restoration) write() error {
	t := r.trainer
	if err := t.streams.compute.Sync(); err != nil { // as in openSource
		return err
	}
	undo, err := r.setSchedules()
	if err != nil {
		return err
	}
	if err := r.prepare(); err != nil {
		undo()
		return err
	}
	for i := range r.tensors {
		x := &r.tensors[i]
		h, err := t.memory.tensor(x.home.Ref, 0, x.Name)
		if err == nil {
			err = h.Write(x.part(x.data, &t.plan.opt))
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", x.Name, err)
		}
	}
	r.setCounters()
	return nil
}

// prepare clears what is not restored, and drops programs and loaders of the former state.
func (r *restoration) prepare() error {
	t := r.trainer
	if order := r.order(); order != t.loaders.order {
		err := t.loaders.closeIf(func(l loader) bool { return l.train })
		if t.loaders.count(); err != nil {
			return err
		}
		t.loaders.order = order
	}
	switch {
	case r.opt.ParametersOnly:
		return t.memory.clearState(t.streams.compute)
	case r.info.Stage != t.plan.stage:
		return t.dropTrained()
	}
	return nil
}

// order returns the order of samples after the restore.
func (r *restoration) order() uint64 {
	switch {
	case r.opt.Order != 0:
		return r.opt.Order
	case r.opt.ParametersOnly:
		return 0
	}
	return r.info.Order
}

// setCounters sets the counters, and what the next pass begins with.
func (r *restoration) setCounters() {
	t, i := r.trainer, &r.info
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.plan.objectives(compile.Train)
	c := counters{order: r.order(), rateFactor: 1, updates: make([]int64, n), nonFinite: make([]int, n)}
	if r.opt.RateFactor != 0 {
		c.rateFactor = r.opt.RateFactor
	}
	if t.plan.opt.scaled() {
		c.scaling = t.plan.opt.LossScale.Start()
	}
	t.own.passes, t.unfinished = nil, nil
	if r.opt.ParametersOnly {
		t.counters = c
		return
	}
	c.data = i.Data
	c.epochs, c.steps, c.before, c.rateFactor = i.Epochs, i.Steps, i.UpdatesBefore, c.rateFactor*i.RateFactor
	for k, o := range i.Objectives {
		c.updates[k], c.nonFinite[k] = o.Updates, o.NonFinite
	}
	if c.scaling != (optim.ScalingState{}) && i.LossScale != (optim.ScalingState{}) {
		c.scaling = i.LossScale
	}
	t.counters, t.plan.stage = c, i.Stage
	if !r.exact {
		return
	}
	if i.Epoch != nil {
		t.unfinished = &unfinishedEpoch{i.Position, i.Epoch}
	}
	for _, w := range i.Windows {
		k := t.plan.objectiveNamed(w.Objective)
		p := t.own.pass(t, k)
		p.beginWindow(t, t.plan.opt.Batch*t.plan.opt.ranks())
		p.steps, p.objectives[k].lost = w.Steps, w.Lost
	}
}

// setSchedules sets the states of schedules. undo sets them back.
func (r *restoration) setSchedules() (undo func(), err error) {
	var was []ScheduleInfo
	plan := r.trainer.plan
	set := func(states []ScheduleInfo) error {
		var errs []error
		for _, s := range states {
			if x := plan.statefulOf(s); x != nil {
				errs = append(errs, x.SetState(s.State))
			}
		}
		return errors.Join(errs...)
	}
	undo = func() { _ = set(was) } // they have had these states
	if r.opt.ParametersOnly {
		return undo, nil
	}
	if was, err = plan.scheduleStates(); err != nil {
		return undo, err
	}
	if err := set(r.info.Schedules); err != nil {
		undo()
		return undo, fmt.Errorf("state of a schedule: %w", err)
	}
	return undo, nil
}

// statefulOf returns the schedule of the trainer that s is the state of, nil if there is none.
func (p *planned) statefulOf(s ScheduleInfo) optim.Stateful {
	for i := range p.own {
		if p.info.objectives[i].name != s.Objective {
			continue
		}
		if all := optim.StatefulOf(p.own[i].Schedule); s.Index >= 0 && s.Index < len(all) {
			return all[s.Index]
		}
	}
	return nil
}

// averageOf returns the index among tensors of the parameter that tensor x is the average of.
func averageOf(tensors []stateTensor, x *stateTensor) int {
	return slices.IndexFunc(tensors, func(p stateTensor) bool {
		return (p.home.Ref.Region == ir.Parameters || p.home.Ref.Region == ir.HostParameters) && p.home.Name == x.home.Name
	})
}

// isState reports whether a region holds the state of optimizers.
func isState(r arena.Region) bool { return r == ir.State || r == ir.HostState }

// isAverage reports whether a region holds averages.
func isAverage(r arena.Region) bool { return r == ir.Averages || r == ir.HostAverages }

// lowerRate multiplies the rate in a controls vector by the factor of Restore. As in
// optim.WriteControls, what float32 takes products with for 0 is 0.
func (t *Trainer) lowerRate(controls []float64) {
	if f := t.counters.rateFactor; f != 1 {
		if controls[0] *= f; controls[0] < 0x1p-63 {
			controls[0] = 0
		}
	}
}
