package trainer

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// diagnosis finds what went wrong in a step by running it again, call by call.
type diagnosis struct {
	memory  *memory
	compute arena.Stream
	slot    *slot       // the step's; its batch is on the device
	program *ir.Program // the step's
	fields  fieldValues // of that program
}

// diagnose returns the error of the step in slot s: the bad index that the status word names, or
// the first tensor that is not finite. The step's batch is still on the device, and under GuardStep
// its parameters are those it started with. The status word stays set, so that the second run
// changes nothing, until the pass ends. The last step of a window can fail because of a gradient
// that an earlier step made; then the error is that step's. It names its step.
func (p *epochPass) diagnose(s *slot) error {
	t, step, program := p.t, s.batch.Step, s.program
	if err := t.streams.drain(t.slots); err != nil {
		return p.stepError(step, err)
	}
	if err := badIndex(program.ir.Indices, s.status, s.indices); err != nil {
		return p.stepError(step, err)
	}
	// The sums of the window contain what the failed step added. Cleared, they hold this step's own
	// gradients after the second run. The window ends with the pass, so that no step reads them again.
	// The weights of the window stay: the step divides by them.
	if err := t.memory.clearBut(ir.Gradients, t.streams.compute, ir.Part.OfWeights); err != nil {
		return p.stepError(step, err)
	}
	status := s.status[0]
	err := t.replay(s)
	if err == nil {
		step, err = p.replayWindow(s)
	}
	if err == nil { // every second run was finite: all that is known is the status word
		e := &NonFiniteError{Op: "value", Label: "loss", Index: -1, Value: math.NaN(),
			Samples: len(s.indices), Sample: -1, err: ErrNonFinite}
		if p.mode == compile.Train {
			_, first, _ := t.plan.opt.window(p.mode, step, p.total)
			e.blameStatus(program.ir, status, step-first+1)
		}
		err = e
	}
	// Gradients overflow at the smallest scale too: name it, since it cannot fall any more.
	var e *NonFiniteError
	overflowed := status >= ir.FirstGradient && status < ir.FirstVariance
	if p.mode == compile.Train && t.plan.opt.scaled() && overflowed && errors.As(err, &e) {
		e.Scale = t.counters.scaling.Scale
	}
	return p.stepError(step, err)
}

// replay runs the step in slot s again, and returns an error about the first tensor that is not
// finite, or nil. Nothing is in flight, and the status word is set.
func (t *Trainer) replay(s *slot) error {
	p := s.program
	d := &diagnosis{memory: t.memory, compute: t.streams.compute, slot: s, program: p.ir}
	d.fields = fieldValuesOf(p.ir, p.dataset)
	return d.replay()
}

// replayWindow runs the earlier steps of the window of the step in slot s again, in that slot, and
// returns the error of the first one that is not finite, and its number. It returns the step of
// slot s and nil if all are finite, or if their samples cannot be fetched again.
func (p *epochPass) replayWindow(s *slot) (step int, err error) {
	t, last := p.t, s.batch.Step
	_, first, _ := t.plan.opt.window(p.mode, last, p.total)
	if p.ds == nil { // the caller of Step made the data
		return last, nil
	}
	var indices [][]int
	for step := first; step < last; step++ {
		indices = append(indices, p.reader.run.Indices(step))
	}
	// No reader may write to the slot now.
	if first == last || p.reader.close(nil) != nil {
		return last, nil
	}
	for step := first; step < last; step++ {
		window, _, _ := t.plan.opt.window(p.mode, step, p.total)
		s.batch = dataloader.Batch{Slot: s.index, Step: step, Rows: len(indices[step-first]), Indices: indices[step-first]}
		s.indices = append(s.indices[:0], s.batch.Indices...)
		if s.program, err = t.programs.find(p.key(s.batch.Rows, window, s.objective)); err != nil {
			return last, nil
		}
		if err := p.refill(s); err != nil {
			return last, nil
		}
		if err := t.replay(s); err != nil {
			return step, err
		}
	}
	return last, nil
}

// refill fetches the samples of the batch in slot s again and uploads them.
func (p *epochPass) refill(s *slot) error {
	t := p.t
	for _, f := range s.fields {
		t.memory.willWrite(f)
	}
	dst := make([][]byte, len(p.source.fields))
	for row, index := range s.batch.Indices {
		for k, f := range p.source.fields {
			n := int(f.Bytes())
			dst[k] = s.host[f.Name][row*n : (row+1)*n : (row+1)*n]
		}
		at := dataloader.At{Index: index, Epoch: p.epoch, Seed: t.loaders.seed(p.mode)}
		if err := fetch(p.source.read, at, dst); err != nil {
			return err
		}
	}
	if err := p.writeControls(s); err != nil {
		return err
	}
	st, i := &t.streams, s.index
	return errors.Join(st.enqueueCopies(s.program.own.prefetch[i]), st.enqueueCopies(s.program.own.atLaunch[i]), st.upload.Sync())
}

// fetch calls the dataset's Fetch. A panic in it is an error.
func fetch(ds dataloader.Dataset, at dataloader.At, dst [][]byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &dataloader.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return ds.Fetch(context.Background(), at, dst)
}

// blameStatus names the gradient, added up over a number of steps, or the variance that a status word
// names.
func (e *NonFiniteError) blameStatus(p *ir.Program, status int32, steps int) {
	if v := int(status - ir.FirstVariance); v >= 0 && v < len(p.Variances) {
		e.Op, e.Label = "running variance", p.Variances[v]
	} else if g := int(status - ir.FirstGradient); g >= 0 && g < len(p.Trained) {
		e.Op, e.Label, e.steps = "gradient", p.Trained[g], steps
	}
}

// replay checks what the step reads, then runs it call by call and checks what each call writes. It
// returns an error about the first tensor that is not finite, or nil.
func (d *diagnosis) replay() error {
	if err := d.checkFields(); err != nil {
		return err
	}
	if err := d.checkHomes(); err != nil {
		return err
	}
	// The step's own binding launches all calls at once, so each is bound alone: slow, but only the
	// failing step pays for it.
	p := d.program
	calls, err := bindEach(d.memory.device, p, d.memory.binding(d.slot.index))
	defer closeAll(calls)
	if err != nil {
		return err
	}
	for i, c := range calls {
		if c == nil {
			continue
		}
		in := &p.Instrs[i]
		if in.Op == kernels.AllReduce || in.Op == kernels.Await || in.Op == kernels.Agree {
			continue // the other ranks do not run it again: what follows is of this rank alone
		}
		// A chain may write its result over an input: keep the inputs, to find the bad step.
		before, err := d.chainInputs(in)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Launch(d.compute), d.compute.Sync()); err != nil {
			return err
		}
		// The statistics of a normalization come after its result, but are the cause of what it has.
		for _, o := range slices.Backward(in.Out) {
			if e := d.firstNonFinite(p.Values[o]); e != nil {
				if in.Op == kernels.BatchNorm && o == in.Out[2] {
					return d.blameVariance(in, e)
				}
				return d.blame(in, before, e)
			}
		}
	}
	return nil
}

// blameVariance completes e, an error about the variance of a batch.
func (d *diagnosis) blameVariance(in *ir.Instr, e *NonFiniteError) error {
	e.Op, e.Label, e.Variance = in.Op.Name, in.Owner, true
	return e
}

// checkHomes returns an error about the first value that is not finite among parameters, optimizer
// state and statistics: those that no instruction writes.
func (d *diagnosis) checkHomes() error {
	p := d.program
	// Values that an instruction writes hold what the failed step left there.
	written := make([]bool, len(p.Values))
	for i := range p.Instrs {
		for _, o := range p.Instrs[i].Out {
			written[o] = true
		}
	}
	for i, v := range p.Values {
		// checkFields has checked the batch.
		if written[i] || !v.Home || v.Ref.Region == ir.Slot || v.Ref.Region == ir.Resident {
			continue
		}
		if e := d.firstNonFinite(v); e != nil {
			e.Label = v.Name
			return e
		}
	}
	return nil
}

// chainInputs reads the inputs of a chain, or of the root of weights, which it may overwrite. For
// other operations it returns nil.
func (d *diagnosis) chainInputs(in *ir.Instr) ([][]byte, error) {
	if _, weighs := ir.WeightOf(in.Label); in.Op != kernels.Chain && (in.Op != kernels.Sqrt || !weighs) {
		return nil, nil
	}
	data := make([][]byte, len(in.In))
	for k, v := range in.In {
		var err error
		if data[k], err = d.read(d.program.Values[v]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// blame completes e, an error about an output of in, with what the operation knows: the step of a
// chain, or the label outside the classes.
func (d *diagnosis) blame(in *ir.Instr, before [][]byte, e *NonFiniteError) error {
	p := d.program
	e.Op, e.Label = in.Op.Name, in.Label
	e.Half = kernels.ComputeTypeOf(in.Attrs) == arena.Float16 || p.Values[in.Out[0]].Spec.Type == arena.Float16
	switch in.Op {
	case kernels.Chain:
		return d.blameStep(in, before, e)
	case kernels.Sqrt:
		if name, ok := ir.WeightOf(in.Label); ok {
			w := make([]float64, p.Values[in.In[0]].Spec.Shape.Elems())
			kernels.Load(w, p.Values[in.In[0]].Spec.Type, before[0])
			return d.blameWeight(in, name, w, e)
		}
	case kernels.MatMul: // the output may be a slice of rows of a gradient
		e.Index += in.Attrs.(kernels.MatMulAttrs).Rows[0] * p.Values[in.Out[0]].Spec.Shape[1]
	case kernels.CrossEntropy, kernels.CrossEntropyGrad:
		return d.blameLabel(in, e)
	}
	return e
}

// blameStep finds the first step of a chain whose result is not finite, by computing one more step
// each time.
func (d *diagnosis) blameStep(in *ir.Instr, before [][]byte, e *NonFiniteError) error {
	p := d.program
	// The reference computes in float64 what the kernel computed in the chain's type. It is finite
	// where only the rounding overflowed; then e stays as it is.
	operands := make([]kernels.Tensor, len(in.In))
	for k, v := range in.In {
		spec := p.Values[v].Spec
		operands[k] = kernels.Tensor{Spec: spec, Data: make([]float64, spec.Shape.Elems())}
		kernels.Load(operands[k].Data, spec.Type, before[k])
	}
	a := in.Attrs.(*kernels.ChainAttrs)
	last, err := a.Last(p.Specs(in.In))
	if err != nil {
		return err
	}
	// Computing the first k+1 steps for each k takes quadratic time, but chains are short, and the
	// reference needs no form that keeps the results of all steps.
	for k, step := range a.Steps {
		// A step's own shape may be smaller than the chain's: compute it in the shape that all
		// inputs broadcast to.
		out := kernels.Tensor{Spec: last, Data: make([]float64, last.Shape.Elems())}
		kernels.Chain.Ref(&kernels.ChainAttrs{Steps: a.Steps[:k+1]}, operands, []kernels.Tensor{out})
		for i, v := range out.Data {
			if !finite(v) {
				e.Op, e.Label, e.Index, e.Value = step.Op.Name, in.Steps[k], i, v
				name, ok := ir.WeightOf(e.Label)
				if !ok {
					return e
				}
				if step.A < len(operands) {
					return d.blameWeight(in, name, operands[step.A].Data, e)
				}
				kernels.Chain.Ref(&kernels.ChainAttrs{Steps: a.Steps[:step.A-len(operands)+1]}, operands, []kernels.Tensor{out})
				return d.blameWeight(in, name, out.Data, e)
			}
		}
	}
	if a.Reduce != nil {
		e.Op = a.Reduce.Name
	}
	return e
}

// firstNonFinite returns an error about the first element of v that is not finite, or nil.
func (d *diagnosis) firstNonFinite(v ir.Value) *NonFiniteError {
	if !v.Spec.Type.Float() && !v.Spec.Type.Half() {
		return nil
	}
	x, err := d.numbers(v)
	if err != nil {
		return &NonFiniteError{Label: v.Name, Sample: -1, err: err}
	}
	for i, e := range x {
		if !finite(e) {
			return &NonFiniteError{Index: i, Value: e, Samples: len(d.slot.indices), Sample: -1, err: ErrNonFinite}
		}
	}
	return nil
}

// read copies a value of the program to Go memory.
func (d *diagnosis) read(v ir.Value) ([]byte, error) {
	tensor, err := d.memory.tensor(v.Ref, d.slot.index, v.Name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, v.Ref.Size)
	return b, tensor.Read(b)
}
