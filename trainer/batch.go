package trainer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Batch is data that the caller makes for one training step.
type Batch struct {
	// Objective is the name of the objective to train. Default: the first of the model.
	Objective string
	Rows      int // samples, 1 to Options.Batch
	// Fill writes the rows of every field that the training of the objective reads. It runs in the
	// goroutine that called Step, which has the device: calls of the trainer that need the device
	// return ErrBusy inside it. Its error, or a panic in it, is the error of Step, and nothing is
	// trained.
	Fill func(Fields) error
}

// Step trains one step on data that the caller makes, without a dataset: transitions of a game, or
// noise for a generator. Such a step has the bits that Fit has for the same rows.
//
//	step, err := t.Step(ctx, trainer.Batch{Rows: 2, Fill: func(f trainer.Fields) error {
//		copy(f.Float32("x"), observations)
//		copy(f.Uint8("y"), actions)
//		return nil
//	}})
//
// While Fit or Evaluate runs it returns ErrBusy; it waits for other calls of Step and for a batch
// of Predict. It may be called in the body of Steps, whose batches are then read again. A batch of
// fewer rows than Options.Batch has a program of its own, compiled when that number of rows first
// occurs; the trainer keeps those of the last 8 numbers.
//
// Ranks of Options.Group make the same calls, with batches of their own, which may have different
// numbers of rows: they learn what one rank learns from all of these rows. An error of one rank ends
// the group.
//
// With Options.Accumulate, that many calls of Step, all of full batches, are one window, whose last
// call updates parameters. While such a window is open, Fit and Steps return ErrBusy, and so does
// Step while Steps is within a window of its own. An error ends all windows, unless nothing was
// trained because of it: one of Fill, of an argument, or ErrBusy.
//
// Step.Epoch is 0, and Step.Step and Step.Steps count the calls of the window. Options.Progress is
// not called. Without an error, Step allocates nothing once its program exists.
func (t *Trainer) Step(ctx context.Context, b Batch) (Step, error) {
	step, err := t.ownStep(ctx, b)
	if err != nil {
		t.left(err, true)
		return Step{}, fmt.Errorf("step of the caller's batch: %w", err)
	}
	return step, nil
}

// ownSteps is the state of Trainer.Step. Only the caller that has the device uses it.
type ownSteps struct {
	passes  []epochPass // by objective: of one step, or of a window
	batches tally       // of all ranks: see beginStep
	changed bool        // this rank's weights or state may be others than the last step or pass left
	fields  fieldFill
}

// ownStep is Step, with errors that do not say so.
func (t *Trainer) ownStep(ctx context.Context, b Batch) (_ Step, err error) {
	if ctx == nil {
		return Step{}, errNilContext
	}
	if err := t.use().acquire(ctx); err != nil {
		return Step{}, err
	}
	defer t.usage.release()
	if err := t.takeSlots(); err != nil {
		return Step{}, err
	}
	if err := t.streams.compute.Sync(); err != nil { // as in openSource
		return Step{}, err
	}
	p, program, err := t.openBatch(ctx, b)
	if err != nil {
		return Step{}, err
	}
	s := t.slots[0].of(program.objective)
	if err := p.fill(ctx, s, program, b); err != nil {
		return Step{}, err
	}
	// What follows is a pass of one step. Within a window it goes on with the pass of the last
	// call.
	err = p.launch(s)
	if err == nil {
		err = p.finishStep(ctx, s)
	}
	if err = p.finish(err); err != nil {
		for i := range t.own.passes { // the gradients of all windows are cleared
			t.own.passes[i].steps = 0
		}
	}
	if p.steps == p.total {
		p.steps = 0
	}
	return p.last, err
}

// openBatch prepares the pass of an objective for a step on b. It returns that and the program.
func (t *Trainer) openBatch(ctx context.Context, b Batch) (*epochPass, *boundProgram, error) {
	objective, err := t.checkBatch(b)
	if err != nil {
		return nil, nil, err
	}
	p, opt, window := t.own.pass(t, objective), &t.plan.opt, max(1, t.plan.opt.Accumulate)
	if err := p.beginStep(ctx, t, b.Rows); err != nil {
		return nil, nil, err
	}
	place, _, _ := opt.window(compile.Train, p.steps, window)
	k := t.plan.key(compile.Train, opt.Batch, streamed, place, objective)
	if p.source.full, err = t.programs.find(k); err != nil || b.Rows == opt.Batch {
		return p, p.source.full, err
	}
	k = t.plan.key(compile.Train, b.Rows, streamed, place, 0)
	if err := t.ensurePrograms(ctx, k); errors.Is(err, frontend.ErrRows) {
		return nil, nil, fmt.Errorf("batch of %d rows: %w: %w", b.Rows, ErrOption, err)
	} else if err != nil {
		return nil, nil, fmt.Errorf("batch of %d rows: %w", b.Rows, err)
	}
	k.objective = objective
	program, err := t.programs.find(k)
	return p, program, err
}

// pass returns the pass of an objective.
func (o *ownSteps) pass(t *Trainer, objective int) *epochPass {
	if o.passes == nil {
		o.passes = make([]epochPass, t.plan.objectives(compile.Train))
	}
	return &o.passes[objective]
}

// beginStep begins a step of Trainer.Step with rows of this rank, and a window if none is open. Ranks
// compare their states if one of them has changed its own since they last did.
func (p *epochPass) beginStep(ctx context.Context, t *Trainer, rows int) error {
	changed := false
	if g := t.plan.opt.Group; t.plan.opt.ranks() > 1 {
		var own int64
		if t.own.changed {
			own = 1
		}
		sums, err := t.own.batches.combine(g, group.Sum, "rows of a batch, changed states", int64(rows), own)
		if err != nil {
			return err
		}
		rows, changed = int(sums[0]), sums[1] > 0
	}
	if p.steps == 0 {
		p.beginWindow(t, rows)
	}
	p.stepsBefore = t.trainedSteps()
	if changed {
		return p.meet(ctx)
	}
	return nil
}

// beginWindow makes p the pass of a new window of Trainer.Step, whose batches have a number of rows on
// all ranks together. It uses the memory of the window before.
func (p *epochPass) beginWindow(t *Trainer, rows int) {
	n, window := t.plan.objectives(compile.Train), max(1, t.plan.opt.Accumulate)
	sums, metrics := slices.Grow(p.objectives[:0], n)[:n], p.stepMetrics
	clear(sums)
	if metrics == nil {
		metrics = t.plan.newStepMetrics()
	}
	*p = epochPass{t: t, mode: compile.Train, total: window, objectives: sums, stepMetrics: metrics,
		updatesBefore: append(p.updatesBefore[:0], t.counters.updates...)}
	p.source = batchSource{dataset: streamed, samples: window * rows}
}

// checkBatch returns the objective of b, or an error if no step may be trained on it now.
func (t *Trainer) checkBatch(b Batch) (objective int, err error) {
	opt := &t.plan.opt
	bad := &mistakes{class: ErrOption}
	window := max(1, opt.Accumulate)
	switch {
	case b.Rows < 1 || b.Rows > opt.Batch:
		bad.addf("batch of %d rows: must be 1 to Options.Batch, which is %d", b.Rows, opt.Batch)
	case b.Rows < opt.Batch && window > 1:
		bad.addf("batch of %d rows: must be %d, since Options.Accumulate is %d: "+
			"a window has full batches", b.Rows, opt.Batch, window)
	}
	if b.Fill == nil {
		bad.addf("no Fill: it writes the rows of the batch")
	}
	if objective = t.plan.objectiveNamed(b.Objective); objective < 0 {
		bad.addf("objective %q: the model has no objective of that name", b.Objective)
	}
	if err := errors.Join(bad.errs...); err != nil {
		return 0, err
	}
	if paused := t.usage.pausedPass(); paused != nil && window > 1 {
		if _, first, _ := opt.window(compile.Train, paused.steps, paused.total); first != paused.steps && paused.steps < paused.total {
			return 0, fmt.Errorf("step %d of %s is within a window of Options.Accumulate: "+
				"the trainer is %w until step %d", paused.steps, stepsName, ErrBusy, first+window)
		}
	}
	if err := t.checkUnfinished("Step", true); err != nil {
		return 0, err
	}
	full := t.plan.fullKey(compile.Train, streamed)
	if t.programs[full] == nil {
		return 0, fmt.Errorf("the trainer was made for its resident datasets only: "+
			"set Options.Fields for other data: %w", ErrData)
	}
	return objective, nil
}

// checkWindow returns ErrBusy if a window of Trainer.Step is open, which what would break.
func (t *Trainer) checkWindow(what string) error {
	for i := range t.own.passes {
		p := &t.own.passes[i]
		if p.steps == 0 {
			continue
		}
		return fmt.Errorf("a window of Options.Accumulate is open, which %s would break: the trainer is %w: "+
			"call Step %d more times first", what, ErrBusy, p.total-p.steps)
	}
	return nil
}

// fill lets the caller fill slot s with b, a batch for program.
func (p *epochPass) fill(ctx context.Context, s *slot, program *boundProgram, b Batch) error {
	t := p.t
	s.program, s.uploads, s.first, s.last = program, &program.own, true, true
	s.batch, s.rows = dataloader.Batch{Slot: s.index, Step: p.steps, Rows: b.Rows}, p.stepRows(p.steps)
	s.indices = s.indices[:0]
	for row := range b.Rows {
		s.indices = append(s.indices, row)
	}
	s.batch.Indices = s.indices
	if err := t.invalidateKept(s); err != nil {
		return err
	}
	for _, f := range s.fields {
		t.memory.willWrite(f)
	}
	if err := t.own.fields.run(&t.usage, s, b); err != nil {
		return err
	}
	return ctx.Err()
}

// launch uploads the batch in slot s and enqueues its step.
func (p *epochPass) launch(s *slot) error {
	if err := p.t.streams.enqueueCopies(s.uploads.prefetch[s.index]); err != nil {
		return err
	}
	if err := p.writeControls(s); err != nil {
		return p.agreeOnEnd(err)
	}
	return p.enqueueStep(s)
}

// Fields are the fields of a batch, for Batch.Fill to write. A field has its storage type, which is
// that of Options.Fields, and rows of its elements one after another. Fill must ask for every field
// that the objective reads, and must write all of it: what was there before is left of other
// batches. It may also write the fields that only other objectives read. If the batch has no such
// field, or it has another type, the method returns nil, and Step returns an error that says so and
// wraps ErrData. The memory must not be used after Fill has returned.
type Fields struct{ fill *fieldFill }

// Rows returns the number of rows, which is Batch.Rows.
func (f Fields) Rows() int { return f.fill.rows }

// Float32 returns the elements of a field that is stored as float32, [Rows × elements of a row].
func (f Fields) Float32(name string) []float32 { return fieldOf[float32](f, name, arena.Float32) }

// Float64 returns the elements of a field that is stored as float64.
func (f Fields) Float64(name string) []float64 { return fieldOf[float64](f, name, arena.Float64) }

// Uint8 returns the elements of a field that is stored as uint8.
func (f Fields) Uint8(name string) []uint8 { return fieldOf[uint8](f, name, arena.Uint8) }

// Int32 returns the elements of a field that is stored as int32.
func (f Fields) Int32(name string) []int32 { return fieldOf[int32](f, name, arena.Int32) }

// Int64 returns the elements of a field that is stored as int64.
func (f Fields) Int64(name string) []int64 { return fieldOf[int64](f, name, arena.Int64) }

// Bytes returns the memory of a field of any type, such as bfloat16, in the byte order of this
// machine.
func (f Fields) Bytes(name string) []byte {
	b, _ := f.fill.field(name, 0)
	return b
}

// fieldOf returns the elements of a field that is stored as typ.
func fieldOf[T dataloader.Element](f Fields, name string, typ arena.DType) []T {
	b, ok := f.fill.field(name, typ)
	if !ok {
		return nil
	}
	return dataloader.View[T](b)
}

// fieldFill is the state of one call of Batch.Fill.
type fieldFill struct {
	slot  *slot
	rows  int
	asked []string // names of the fields that Fill has asked for
	errs  []error  // wrong names and types
}

// runFillName is the name of fieldFill.call in call stacks.
var runFillName = runtime.FuncForPC(reflect.ValueOf((*fieldFill).call).Pointer()).Name()

// errInsideFill is the error of a call that would wait for the Fill that makes it.
var errInsideFill = fmt.Errorf("called inside Batch.Fill, while the trainer is %w: make the call before Step", ErrBusy)

// run calls the Fill of b for slot s.
func (f *fieldFill) run(u *usage, s *slot, b Batch) error {
	f.slot, f.rows, f.asked, f.errs = s, b.Rows, f.asked[:0], nil
	defer func() { f.slot = nil }() // the memory is the trainer's again
	u.filling.Store(true)
	defer u.filling.Store(false)
	err := f.call(b.Fill)
	for _, v := range s.program.reads {
		if err == nil && !slices.Contains(f.asked, v.Name) {
			f.errs = append(f.errs, fmt.Errorf("fill: field %q %v is not written: %w", v.Name, v.Spec, ErrData))
		}
	}
	if f.errs != nil { // the cause of a panic, too
		return errors.Join(f.errs...)
	}
	return err
}

// call calls fill. A panic in it is an error.
func (f *fieldFill) call(fill func(Fields) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fill: %w", &dataloader.PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	if err := fill(Fields{f}); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// field returns the memory of a field of type typ; of any type if typ is 0. ok is false, and the
// mistake is recorded, if there is none.
func (f *fieldFill) field(name string, typ arena.DType) (b []byte, ok bool) {
	if f.slot == nil {
		return nil, false
	}
	i := slices.IndexFunc(f.slot.program.inputs, func(v ir.Value) bool { return v.Name == name })
	if i < 0 {
		f.errs = append(f.errs, fmt.Errorf("fill: training reads no field %q: %w", name, ErrData))
		return nil, false
	}
	v := &f.slot.program.inputs[i]
	if typ != 0 && v.Spec.Type != typ {
		f.errs = append(f.errs, fmt.Errorf("fill: field %q is stored as %v, not %v: %w", name, v.Spec.Type, typ, ErrData))
		return nil, false
	}
	f.asked = append(f.asked, name)
	return f.slot.host[name][:v.Spec.Bytes():v.Spec.Bytes()], true
}
