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

// boundProgram is a program that is ready to launch on either slot.
type boundProgram struct {
	programKey
	ir    *ir.Program
	exec  [2]kernels.Program // by slot; nil under Options.Debug
	debug [2]*debugger       // by slot; nil unless under Options.Debug

	// Uploads of a step, by slot: before the previous step is done, and right before the launch;
	// see planned.uploads. Both are nil on unified devices.
	prefetch, atLaunch [2][]kernels.Copy
	sampleBytes        int64      // of samples that a step uploads
	inputs             []ir.Value // fields of the samples that the step reads from the slot

	loss, weight, correct  ir.Value // results of one element
	hasWeight, hasAccuracy bool     // weight and correct exist
	metrics                []metricSum
	norm                   ir.Value // square of the global norm of the gradients
	hasNorm                bool     // norm exists
	updates                bool     // the step updates parameters; false if all are frozen
	checksWeight           bool     // the step ends a window, whose weights may all be 0
}

// bind makes program k of the plan ready to launch.
func bind(m *memory, k programKey, prog *ir.Program, slots []*slot) (*boundProgram, error) {
	p := &boundProgram{programKey: k, ir: prog}
	for i := range p.exec {
		if i > 0 && k.mode == compile.Predict { // a prediction waits for each batch and uses one slot
			break
		}
		if err := p.bindSlot(m, slots[i]); err != nil {
			return nil, errors.Join(fmt.Errorf("bind %s: %w", prog.Name, err), p.close())
		}
	}
	p.loss, _ = prog.Result(compile.LossName)
	p.weight, p.hasWeight = prog.Result(compile.WeightName)
	p.norm, p.hasNorm = prog.Result(compile.NormName)
	p.correct, p.hasAccuracy = prog.Result(compile.CorrectName)
	p.metrics = m.plan.metrics.metricSums(prog)
	ends := k.mode == compile.Train && k.window.Updates()
	p.updates, p.checksWeight = ends && len(prog.Trained) > 0, ends && p.hasWeight
	// Controls and the indices of resident samples are the trainer's own, not bytes of samples.
	for _, v := range slotValues(prog) {
		if v.Name != ir.ControlsName && v.Name != ir.IndexField {
			p.sampleBytes += v.Ref.Size
			p.inputs = append(p.inputs, v)
		}
	}
	return p, nil
}

// bindSlot binds p for a slot.
func (p *boundProgram) bindSlot(m *memory, s *slot) (err error) {
	i, b := s.index, m.binding(s.index)
	if m.plan.opt.Debug {
		p.debug[i], err = newDebugger(m, p.ir, b)
	} else {
		if !m.unified && p.mode != compile.Average {
			b.After = []kernels.Copy{{Dst: s.outcome, Src: m.span(m.plan.outcome(i))}}
		}
		p.exec[i], err = m.device.Bind(p.ir.Calls(), b)
	}
	if err != nil || m.unified {
		return err
	}
	prefetch, atLaunch := m.plan.uploads(p.programKey, p.ir)
	p.prefetch[i], p.atLaunch[i] = m.copies(prefetch, i), m.copies(atLaunch, i)
	return nil
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
	if len(p.atLaunch[s.index]) > 0 {
		if err := errors.Join(st.enqueueCopies(p.atLaunch[s.index]), st.upload.Record(s.copied)); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
		if err := st.compute.Wait(s.copied); err != nil {
			return err
		}
	}
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

// ensureProgram compiles and binds program k, for a batch smaller than the full one, unless it
// exists. It needs no device memory: it reuses the places of the full batch's program. It drops the
// least recently used of the others if there are more than maxShort. The caller has the device, and
// no step is in flight.
func (t *Trainer) ensureProgram(ctx context.Context, k programKey) error {
	if t.programs[k] != nil {
		t.short.use(k)
		return nil
	}
	fullKey := k
	fullKey.rows = t.plan.opt.rows(k.mode)
	full := t.plan.programs[fullKey]
	prog, err := t.plan.compile(ctx, k, full)
	if err != nil {
		return err
	}
	// scratchForOneRow has counted a batch of 1. That other short batches fit is not proved, so it
	// is checked: an error here leaves the trainer as it was.
	if prog.Plan.Bytes > t.plan.scratch {
		return &arena.CapacityError{Name: "scratch of " + prog.Name,
			Need: prog.Plan.Bytes, Have: t.plan.scratch, At: prog.Plan.LiveAt}
	}
	if err := checkSameParameters(prog, full); err != nil {
		return err
	}
	bound, err := bind(t.memory, k, prog, t.slots[:])
	if err != nil {
		return err
	}
	// Plan and Stats read what changes now.
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plan.add(k, prog)
	t.programs[k] = bound
	t.short.use(k)
	if len(t.short) <= maxShort {
		return nil
	}
	oldest := t.short[0]
	t.short = slices.Delete(t.short, 0, 1)
	err = t.programs[oldest].close()
	t.plan.drop(oldest)
	delete(t.programs, oldest)
	return err
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
