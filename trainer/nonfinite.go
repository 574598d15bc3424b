package trainer

import (
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// NonFiniteError names the first tensor of a step that was not finite. It wraps ErrNonFinite, or ErrLabel where a label outside the
// classes is the cause.
type NonFiniteError struct {
	Op      string  // operation that made it, or "" for data and parameters
	Label   string  // layer and node, or the field's or parameter's name
	Index   int     // first element that is not finite, in the sample's field where Sample is one; -1 where it could not be found again
	Value   float64 // that element
	Samples int     // samples of the step
	Sample  int     // index of the sample in the dataset where one is to blame, else -1
	LabelAt int64   // the bad label, where Err is ErrLabel
	Classes int
	Scale   float64 // of the loss, where gradients overflow at the smallest; else 0
	Half    bool    // the operation rounds to float16, in which nothing is above 65504
	err     error
}

func (e *NonFiniteError) Error() string {
	at := ""
	if e.Scale > 0 {
		at = fmt.Sprintf(" at a loss scale of %v, the smallest", e.Scale)
	}
	if e.Half {
		at += " of numbers rounded to float16, which end at 65504 (name the layer in Options.KeepFloat32, or set Precision to bfloat16)"
	}
	return fmt.Sprintf("%s%s: %v", e.what(), at, e.err)
}

func (e *NonFiniteError) what() string {
	switch {
	case e.err == ErrLabel:
		return fmt.Sprintf("sample %d has label %d, the model has classes 0 to %d", e.Sample, e.LabelAt, e.Classes-1)
	case e.Op == "" && e.Sample >= 0:
		return fmt.Sprintf("sample %d: field %q has %v at element %d", e.Sample, e.Label, e.Value, e.Index)
	case e.Op == "":
		return fmt.Sprintf("%q has %v at element %d", e.Label, e.Value, e.Index)
	case e.Index < 0:
		return fmt.Sprintf("%s of %q", e.Op, e.Label)
	}
	return fmt.Sprintf("%s %q made %v at element %d", e.Op, e.Label, e.Value, e.Index)
}

// Unwrap returns ErrNonFinite or ErrLabel.
func (e *NonFiniteError) Unwrap() error { return e.err }

// IndexError names an index that is not one of a row of a table. It wraps ErrIndex.
type IndexError struct {
	Node   string // that reads the rows
	Index  int64
	Rows   int // of the table
	Sample int // index of the sample in the dataset, -1 where the indices are not a field of it
	At     int // which of that sample's indices it is, or which of the step's
	place  int // which of the step's it is
}

func (e *IndexError) Error() string {
	of := fmt.Sprintf("node %q: index %d at %d is not in 0..%d: %v", e.Node, e.Index, e.place, e.Rows-1, ErrIndex)
	if e.Sample < 0 {
		return of
	}
	return fmt.Sprintf("sample %d: %s", e.Sample, of)
}

// Unwrap returns ErrIndex.
func (e *IndexError) Unwrap() error { return ErrIndex }

// badIndex returns an *IndexError where the status word of a step says that one of the indices is not of a row, in a batch of such samples.
func badIndex(indices []ir.Indices, guard, samples []int32) error {
	x, ok := layout.FindBadIndex(indices, guard)
	if !ok {
		return nil
	}
	e := &IndexError{Node: x.Node, Rows: x.Rows, Index: x.Index, Sample: -1, At: x.At, place: x.At}
	if x.Each > 0 && x.At/x.Each < len(samples) {
		e.Sample, e.At = int(samples[x.At/x.Each]), x.At%x.Each
	}
	return e
}

// diagnose finds what was wrong in the step on slot s: an index, which the status word names, or what was not finite, by running it again
// call by call. Its batch is still on the device, and with GuardStep its parameters are those it started with. The status word stays set
// meanwhile, so that nothing changes, until the pass finishes.
func (t *Trainer) diagnose(s *slot) error {
	if err := t.drain(); err != nil {
		return err
	}
	p := s.program
	if err := badIndex(p.ir.Indices, s.guard, s.indices); err != nil {
		return err
	}
	err := t.replay(s, p.ir)
	if err == nil {
		e := &NonFiniteError{Op: "value", Label: "loss", Index: -1, Value: math.NaN(), Samples: len(s.indices), Sample: -1, err: ErrNonFinite}
		if g := int(s.guard[0] - ir.FirstGradient); p.mode == compile.Train && g >= 0 && g < len(p.ir.Trained) {
			e.Op, e.Label = "gradient", p.ir.Trained[g]
		}
		err = e
	}
	var e *NonFiniteError
	if p.mode == compile.Train && t.opt.scaled() && s.guard[0] >= ir.FirstGradient && errors.As(err, &e) {
		e.Scale = t.scaling.Scale
	}
	return err
}

// overflowed reports whether the update of the step on slot s, of that loss, is to be skipped: gradients were not finite, and a smaller scale of
// the loss may cure that.
func (t *Trainer) overflowed(s *slot, loss float64) bool {
	return s.program.updates && t.opt.scaled() && finite(loss) && s.guard[0] >= ir.FirstGradient && t.scaling.Scale > optim.MinScale
}

// finite reports whether v is neither NaN nor an infinity.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (t *Trainer) replay(s *slot, p *ir.Program) error {
	made := make([]bool, len(p.Values))
	for i := range p.Instrs {
		for _, o := range p.Instrs[i].Out {
			made[o] = true
		}
	}
	for v, val := range p.Values {
		if made[v] || !val.Home || !val.Spec.Type.Float() || val.Ref.Region == ir.Resident || val.Name == ir.ControlsName {
			continue
		}
		if e := t.firstBad(s, val); e != nil {
			e.Label = val.Name
			if val.Ref.Region == ir.Slot {
				e.inSample(s, val.Spec)
			}
			return e
		}
	}
	calls, err := t.single(p, t.binding(s.index))
	defer closeAll(calls)
	if err != nil {
		return err
	}
	for i, c := range calls {
		if c == nil {
			continue
		}
		in := &p.Instrs[i]
		before, err := t.chainInputs(s, p, in)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Launch(t.compute), t.compute.Sync()); err != nil {
			return err
		}
		for _, o := range in.Out {
			if e := t.firstBad(s, p.Values[o]); e != nil {
				return t.blame(s, p, in, before, e)
			}
		}
	}
	return nil
}

// inSample turns the index into a field of the whole batch, of that spec, into a sample and the index into its field.
func (e *NonFiniteError) inSample(s *slot, batch kernels.Spec) {
	each := batch.Shape.Elems() / len(s.indices)
	e.Sample, e.Index = int(s.indices[e.Index/each]), e.Index%each
}

// chainInputs reads what a chain works on, which it may overwrite; nil for other operations.
func (t *Trainer) chainInputs(s *slot, p *ir.Program, in *ir.Instr) ([][]byte, error) {
	if in.Op != kernels.Chain {
		return nil, nil
	}
	data := make([][]byte, len(in.In))
	for k, v := range in.In {
		var err error
		if data[k], err = t.read(s, p.Values[v]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// blame completes e, about an output of in: by the sample of resident data, the step of a chain, or the label outside the classes.
func (t *Trainer) blame(s *slot, p *ir.Program, in *ir.Instr, before [][]byte, e *NonFiniteError) error {
	e.Op, e.Label = in.Op.Name, in.Label
	e.Half = kernels.OperandsOf(in.Attrs) == arena.Float16 || p.Values[in.Out[0]].Spec.Type == arena.Float16
	switch in.Op {
	case kernels.Gather:
		e.Op, e.Label = "", p.Values[in.In[0]].Name
		e.inSample(s, p.Values[in.Out[0]].Spec)
	case kernels.Chain:
		return blameStep(p, in, before, e)
	case kernels.MatMul: // of a slice of rows
		e.Index += in.Attrs.(kernels.MatMulAttrs).Rows[0] * p.Values[in.Out[0]].Spec.Shape[1]
	case kernels.CrossEntropy, kernels.CrossEntropyGrad:
		return t.blameLabel(s, p, in, e)
	}
	return e
}

// blameStep finds the first step of a chain whose result is not finite, by running ever more of its steps.
func blameStep(p *ir.Program, in *ir.Instr, before [][]byte, e *NonFiniteError) error {
	operands := make([]kernels.Tensor, len(in.In))
	for k, v := range in.In {
		spec := p.Values[v].Spec
		operands[k] = kernels.Tensor{Spec: spec, Data: make([]float64, spec.Shape.Elems())}
		kernels.Load(operands[k].Data, spec.Type, before[k])
	}
	a := in.Attrs.(*kernels.ChainAttrs)
	steps := a.Steps
	last, err := a.Last(p.Specs(in.In))
	if err != nil {
		return err
	}
	for k, step := range steps {
		// A step's own shape may be smaller than the chain's: compute it where all inputs broadcast to.
		out := kernels.Tensor{Spec: last}
		out.Data = make([]float64, out.Shape.Elems())
		kernels.Chain.Ref(&kernels.ChainAttrs{Steps: steps[:k+1]}, operands, []kernels.Tensor{out})
		for i, v := range out.Data {
			if !finite(v) {
				e.Op, e.Label, e.Index, e.Value = step.Op.Name, in.Steps[k], i, v
				return e
			}
		}
	}
	if a.Reduce != nil {
		e.Op = a.Reduce.Name
	}
	return e
}

// blameLabel looks for a label outside the classes, where cross entropy made e.
func (t *Trainer) blameLabel(s *slot, p *ir.Program, in *ir.Instr, e *NonFiniteError) error {
	classes := p.Values[in.In[0]].Spec.Shape[1]
	labels := p.Values[in.In[1]]
	b, err := t.read(s, labels)
	if err != nil {
		return err
	}
	got := make([]float64, labels.Spec.Shape.Elems())
	kernels.Load(got, labels.Spec.Type, b)
	for i, l := range got {
		if l < 0 || l >= float64(classes) {
			e.err, e.LabelAt, e.Classes, e.Sample = ErrLabel, int64(l), classes, int(s.indices[i])
			return e
		}
	}
	return e
}

// firstBad returns an error for the first element of v that is not finite, nil if all are.
func (t *Trainer) firstBad(s *slot, v ir.Value) *NonFiniteError {
	if !v.Spec.Type.Float() && !v.Spec.Type.Half() {
		return nil
	}
	b, err := t.read(s, v)
	if err != nil {
		return &NonFiniteError{Label: v.Name, Sample: -1, err: err}
	}
	x := make([]float64, v.Spec.Shape.Elems())
	kernels.Load(x, v.Spec.Type, b)
	for i, e := range x {
		if !finite(e) {
			return &NonFiniteError{Index: i, Value: e, Samples: len(s.indices), Sample: -1, err: ErrNonFinite}
		}
	}
	return nil
}

// read copies a program's value to the host.
func (t *Trainer) read(s *slot, v ir.Value) ([]byte, error) {
	h, err := t.homeOf(v.Ref, s.index, v.Name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, v.Ref.Size)
	return b, h.Read(b)
}
