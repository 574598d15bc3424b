package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// boundProgram is a program that is ready to launch on every slot.
type boundProgram struct {
	programKey
	ir    *ir.Program
	bytes int64             // ir.HostBytes
	exec  []kernels.Program // by slot; nil under Options.Debug
	debug []*debugger       // by slot; nil unless under Options.Debug

	// Uploads of a step: of what it reads; in the first step of a batch, of what the steps of all
	// objectives read; in further steps of the batch, of the controls.
	own, batch, controls uploads

	inputs       []ir.Value   // fields of the samples that the steps of all objectives read from the slot
	reads        []ir.Value   // those that this step reads
	norm         ir.Value     // square of the global norm of the gradients
	hasNorm      bool         // norm exists
	lossResult                // of the first objective, or of the one that it trains
	others       []lossResult // of evaluation: of the other objectives
	correct      ir.Value
	hasAccuracy  bool // correct exists
	metrics      []metricSum
	updates      bool // the step updates parameters; false if all are frozen
	checksWeight bool // the step ends a window, whose weights may all be 0
}

// bind makes program k of the plan ready to launch.
func bind(m *memory, k programKey, prog *ir.Program, slots []*slot) (*boundProgram, error) {
	p := &boundProgram{programKey: k, ir: prog, bytes: prog.HostBytes()}
	if k.mode == compile.Predict { // a prediction waits for each batch and uses one slot
		slots = slots[:1]
	}
	p.exec, p.debug = make([]kernels.Program, len(slots)), make([]*debugger, len(slots))
	for _, u := range []*uploads{&p.own, &p.batch, &p.controls} {
		u.prefetch, u.atLaunch = make([][]kernels.Copy, len(slots)), make([][]kernels.Copy, len(slots))
	}
	for _, s := range slots {
		if err := p.bindSlot(m, s); err != nil {
			return nil, errors.Join(fmt.Errorf("bind %s: %w", prog.Name, err), p.close())
		}
	}
	p.lossResult = lossOf(prog, m.plan.objectiveName(k.objective))
	for i := 1; k.mode == compile.Evaluate && i < m.plan.objectives(compile.Train); i++ {
		p.others = append(p.others, lossOf(prog, m.plan.objectiveName(i)))
	}
	p.norm, p.hasNorm = prog.Result(compile.NormName)
	p.correct, p.hasAccuracy = prog.Result(compile.CorrectName)
	p.metrics = m.plan.metrics.metricSums(prog)
	ends := k.mode == compile.Train && k.window.Updates()
	p.updates, p.checksWeight = ends && len(prog.Trained) > 0, ends && p.hasWeight
	p.reads, p.inputs = sampleFields(slotValues(prog)), sampleFields(m.plan.batchValues(k))
	return p, nil
}

// bindSlot binds p for a slot.
func (p *boundProgram) bindSlot(m *memory, s *slot) (err error) {
	i, b := s.index, m.binding(s.index)
	if !m.unified && p.mode != compile.Average {
		b.After = []kernels.Copy{{Dst: s.of(p.objective).outcome, Src: m.span(m.plan.outcome(i))}}
	}
	if m.plan.opt.Debug {
		p.debug[i], err = newDebugger(m, p.ir, b)
	} else {
		p.exec[i], err = m.device.Bind(p.ir.Calls(), b)
	}
	if err != nil {
		return err
	}
	values := slotValues(p.ir)
	_, controls := splitControls(values)
	p.own.set(m, p.programKey, values, i)
	p.batch.set(m, p.programKey, m.plan.batchValues(p.programKey), i)
	p.controls.set(m, p.programKey, controls, i)
	return nil
}

// uploads are copies from the host's places of a slot to the device's.
type uploads struct {
	// By slot: before the previous step is done, and right before the launch; see planned.uploads.
	// Both are nil on unified devices.
	prefetch, atLaunch [][]kernels.Copy
	sampleBytes        int64 // of samples
}

// set sets the uploads to slot i for a step of program k: those of values.
func (u *uploads) set(m *memory, k programKey, values []ir.Value, i int) {
	u.sampleBytes = 0
	for _, v := range sampleFields(values) {
		u.sampleBytes += v.Ref.Size
	}
	if !m.unified {
		prefetch, atLaunch := m.plan.uploads(k, values)
		u.prefetch[i], u.atLaunch[i] = m.copies(prefetch, i), m.copies(atLaunch, i)
	}
}

// sampleFields returns the fields of samples among values of a slot. Controls and the indices of
// resident samples are the trainer's own.
func sampleFields(values []ir.Value) []ir.Value {
	fields, _ := splitControls(values)
	return slices.DeleteFunc(fields, func(v ir.Value) bool { return v.Name == ir.IndexField })
}

// lossResult is where a program leaves the loss of an objective.
type lossResult struct {
	loss, weight ir.Value
	hasWeight    bool
}

// lossOf returns where prog leaves the loss of an objective.
func lossOf(prog *ir.Program, objective string) (l lossResult) {
	l.loss, _ = prog.Result(compile.LossOf(objective))
	l.weight, l.hasWeight = prog.Result(compile.WeightOf(objective))
	return l
}

// close releases the program.
func (p *boundProgram) close() error {
	errs := []error{closeAll(p.exec[:])}
	for _, d := range p.debug {
		if d != nil {
			errs = append(errs, d.close())
		}
	}
	return errors.Join(errs...)
}

// enqueue enqueues the step of the batch in slot s: what is left to upload, and the program, which
// ends with the copy of its results to the host.
func (p *boundProgram) enqueue(st *streams, s *slot) error {
	// The compute stream waits for the uploads on the device; the host goes on. Recording copied
	// after both kinds of upload makes one wait enough.
	if copies := s.uploads.atLaunch[s.index]; len(copies) > 0 {
		if err := errors.Join(st.enqueueCopies(copies), st.upload.Record(s.copied)); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
		if err := st.compute.Wait(s.copied); err != nil {
			return err
		}
	}
	return p.launch(st, s)
}

// launch enqueues the program on slot s, whose uploads are enqueued.
func (p *boundProgram) launch(st *streams, s *slot) error {
	if d := p.debug[s.index]; d != nil {
		return d.launch(st.compute)
	}
	return p.exec[s.index].Launch(st.compute)
}

// programs are the programs of a trainer, bound: one for each mode, dataset and window of full
// batches, and those of the short batches in shortPrograms.
type programs map[programKey]*boundProgram

// maxShort bounds the programs of short batches, for callers that predict or train datasets of many
// lengths. One pass needs one of them.
const maxShort = 8

// shortPrograms lists the programs of short batches that a trainer keeps, the least recently used
// first.
type shortPrograms []programKey

// use moves k to the end, or adds it.
func (s *shortPrograms) use(k programKey) {
	*s = append(slices.DeleteFunc(*s, func(o programKey) bool { return o == k }), k)
}

// find returns the program for a batch of k.rows, which ensure has made.
func (ps programs) find(k programKey) (*boundProgram, error) {
	p := ps[k]
	if p == nil {
		return nil, fmt.Errorf("a batch of %d: the dataset has changed its length: %w", k.rows, ErrData)
	}
	return p, nil
}

// close releases all programs.
func (ps programs) close() error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// ensurePrograms compiles and binds program k, for a batch smaller than the full one, and those of
// other objectives, unless they exist. They need no device memory: they reuse the places of the
// full batch's programs. It drops the least recently used of the others if there are more than
// maxShort. The caller has the device, and no step is in flight.
func (t *Trainer) ensurePrograms(ctx context.Context, k programKey) error {
	if t.programs[k] != nil {
		t.short.use(k)
		return nil
	}
	defer t.plan.opt.busy("compiles")()
	made := make([]*ir.Program, t.plan.objectives(k.mode))
	for i := range made {
		k.objective = i
		var err error
		if made[i], err = t.compileShort(ctx, k); err != nil {
			return err
		}
	}
	k.objective = 0
	if err := t.bindShort(k, made); err != nil {
		return errors.Join(err, t.dropShort(k))
	}
	t.short.use(k)
	if len(t.short) <= maxShort {
		return nil
	}
	oldest := t.short[0]
	t.short = slices.Delete(t.short, 0, 1)
	return t.dropShort(oldest)
}

// bindShort adds programs of short batches to the plan and binds them. k is the key of the first,
// made has one for each objective.
func (t *Trainer) bindShort(k programKey, made []*ir.Program) error {
	// Plan and Stats read what changes under the lock. Programs are bound outside of it, which takes
	// time, when the plan has all of them: see planned.batchValues.
	t.mu.Lock()
	for k.objective = range made {
		t.plan.add(k, made[k.objective])
	}
	t.mu.Unlock()
	for k.objective = range made {
		bound, err := bind(t.memory, k, made[k.objective], t.slots)
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.programs[k] = bound
		t.mu.Unlock()
	}
	return nil
}

// dropShort drops the programs of k for all objectives.
func (t *Trainer) dropShort(k programKey) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for k.objective = range t.plan.objectives(k.mode) {
		if p := t.programs[k]; p != nil {
			errs = append(errs, p.close())
		}
		t.plan.drop(k)
		delete(t.programs, k)
	}
	return errors.Join(errs...)
}

// compileShort compiles program k, of a short batch.
func (t *Trainer) compileShort(ctx context.Context, k programKey) (*ir.Program, error) {
	whole := k
	whole.rows = t.plan.opt.rows(k.mode)
	full := t.plan.programs[whole]
	prog, err := t.plan.compile(ctx, k, full)
	if err == nil && prog.Plan.Bytes > t.plan.scratch {
		// Numbers that depend on the batch may equal others at this one, and what is computed with
		// them is merged: one value that is live for longer than each of two.
		k.distinct = true
		distinct, e := t.plan.compile(ctx, k, full)
		if err = e; e == nil && distinct.Plan.Bytes < prog.Plan.Bytes {
			prog = distinct
		}
	}
	if err != nil {
		return nil, err
	}
	// scratchForOneRow has counted a batch of 1. That other short batches fit is not proved, so it
	// is checked: an error here leaves the trainer as it was.
	if prog.Plan.Bytes > t.plan.scratch {
		return nil, &arena.CapacityError{Name: "scratch of " + prog.Name,
			Need: prog.Plan.Bytes, Have: t.plan.scratch, At: prog.Plan.LiveAt}
	}
	return prog, checkSameParameters(prog, full)
}

// checkSameParameters returns an error unless prog trains all parameters that the full batch's
// program trains.
func checkSameParameters(prog, full *ir.Program) error {
	var errs []error
	for _, name := range full.Trained {
		if !slices.Contains(prog.Trained, name) {
			errs = append(errs, fmt.Errorf("parameter %q is missing at batch %d: "+
				"the model must have the same parameters for every batch size: %w", name, prog.Batch, ErrModel))
		}
	}
	return errors.Join(errs...)
}
