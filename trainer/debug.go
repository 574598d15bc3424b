package trainer

import (
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// debugger runs a program call by call under the eyes of a sentry.
type debugger struct {
	ir     *ir.Program
	calls  []kernels.Program // by instruction; nil for views
	sentry *arena.Sentry
}

func (t *Trainer) newDebugger(p *ir.Program, at kernels.Binding) (*debugger, error) {
	d := &debugger{ir: p}
	var err error
	if d.calls, err = t.single(p, at); err != nil {
		return nil, errors.Join(err, d.close())
	}
	span := t.span(arena.Ref{Region: t.region[ir.Scratch], Size: t.scratch})
	d.sentry, err = arena.NewSentry(p.Problem, p.Plan, span.Memory.Bytes()[span.Offset:span.Offset+p.Plan.Bytes])
	return d, err
}

// single binds each instruction of p by itself.
func (t *Trainer) single(p *ir.Program, at kernels.Binding) ([]kernels.Program, error) {
	calls := make([]kernels.Program, len(p.Instrs))
	for i := range p.Instrs {
		c, ok := p.Call(i)
		if !ok {
			continue
		}
		var err error
		if calls[i], err = t.device.Bind([]kernels.Call{c}, at); err != nil {
			return calls, err
		}
	}
	return calls, nil
}

func (d *debugger) launch(s arena.Stream) error {
	d.sentry.Begin()
	for i, c := range d.calls {
		if c != nil {
			if err := errors.Join(c.Launch(s), s.Sync()); err != nil {
				return err
			}
		}
		if err := d.sentry.After(int32(i), d.ir.Instrs[i].Label); err != nil {
			return err
		}
	}
	return nil
}

func (d *debugger) close() error { return closeAll(d.calls) }

func closeAll(ps []kernels.Program) error {
	var errs []error
	for _, p := range ps {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// NonFiniteError names the first tensor of a step that was not finite. It wraps ErrNonFinite, or ErrLabel where a label outside the
// classes is the cause.
type NonFiniteError struct {
	Op      string  // operation that made it, or "" for data and parameters
	Label   string  // layer and node, or the field's or parameter's name
	Index   int     // first element that is not finite, -1 where it could not be found again
	Value   float64 // that element
	Samples int     // samples of the step
	Sample  int     // index of the sample in the dataset where one is to blame, else -1
	LabelAt int64   // the bad label, where Err is ErrLabel
	Classes int
	err     error
}

func (e *NonFiniteError) Error() string {
	switch {
	case e.err == ErrLabel:
		return fmt.Sprintf("sample %d has label %d, the model has classes 0 to %d: %v", e.Sample, e.LabelAt, e.Classes-1, e.err)
	case e.Op == "" && e.Sample >= 0:
		return fmt.Sprintf("sample %d: field %q has %v at element %d: %v", e.Sample, e.Label, e.Value, e.Index, e.err)
	case e.Op == "":
		return fmt.Sprintf("%q has %v at element %d: %v", e.Label, e.Value, e.Index, e.err)
	case e.Index < 0:
		return fmt.Sprintf("%s of %q: %v", e.Op, e.Label, e.err)
	}
	return fmt.Sprintf("%s %q made %v at element %d: %v", e.Op, e.Label, e.Value, e.Index, e.err)
}

// Unwrap returns ErrNonFinite or ErrLabel.
func (e *NonFiniteError) Unwrap() error { return e.err }

// diagnose finds what was not finite in the step on slot s, by running it again call by call. Its batch is still on the device, and
// with GuardStep its parameters are those it started with. The status word stays set meanwhile, so that nothing changes, and is
// cleared at the end, so that training can go on.
func (t *Trainer) diagnose(s *slot) error {
	if err := t.drain(); err != nil {
		return err
	}
	p := s.program
	err := t.replay(s, p.ir)
	if err == nil {
		e := &NonFiniteError{Op: "value", Label: "loss", Index: -1, Value: math.NaN(), Samples: len(s.indices), Sample: -1, err: ErrNonFinite}
		if g := int(s.guard[0]) - 2; p.mode == compile.Train && g >= 0 && g < len(p.ir.Trained) {
			e.Op, e.Label = "gradient", p.ir.Trained[g]
		}
		err = e
	}
	return errors.Join(err, t.clear(ir.Guard))
}

func (t *Trainer) replay(s *slot, p *ir.Program) error {
	made := make([]bool, len(p.Values))
	for i := range p.Instrs {
		for _, o := range p.Instrs[i].Out {
			made[o] = true
		}
	}
	for v, val := range p.Values {
		if made[v] || !val.Home || !val.Spec.Type.Float() || val.Ref.Region == ir.Resident || val.Name == compile.ControlsName {
			continue
		}
		if e := t.firstBad(s, val); e != nil {
			e.Label = val.Name
			if val.Ref.Region == ir.Slot {
				e.Sample = int(s.indices[e.Index/(val.Spec.Shape.Elems()/len(s.indices))])
			}
			return e
		}
	}
	calls, err := t.single(p, kernels.Binding{Memory: t.arena.Memory(), Base: t.bases(s.index)})
	defer closeAll(calls)
	if err != nil {
		return err
	}
	for i, c := range calls {
		if c == nil {
			continue
		}
		if err := errors.Join(c.Launch(t.compute), t.compute.Sync()); err != nil {
			return err
		}
		in := &p.Instrs[i]
		for _, o := range in.Out {
			if e := t.firstBad(s, p.Values[o]); e != nil {
				if in.Op == kernels.Gather {
					e.Label, e.Sample = p.Values[in.In[0]].Name, int(s.indices[e.Index/(p.Values[o].Spec.Shape.Elems()/len(s.indices))])
					return e
				}
				e.Op, e.Label = in.Op.Name, in.Label
				return t.blame(s, p, in, e)
			}
		}
	}
	return nil
}

// blame looks for a label outside the classes, where cross entropy made e.
func (t *Trainer) blame(s *slot, p *ir.Program, in *ir.Instr, e *NonFiniteError) error {
	if in.Op != kernels.CrossEntropy && in.Op != kernels.CrossEntropyGrad {
		return e
	}
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
	if !v.Spec.Type.Float() {
		return nil
	}
	b, err := t.read(s, v)
	if err != nil {
		return &NonFiniteError{Label: v.Name, Sample: -1, err: err}
	}
	x := make([]float64, v.Spec.Shape.Elems())
	kernels.Load(x, v.Spec.Type, b)
	for i, e := range x {
		if math.IsNaN(e) || math.IsInf(e, 0) {
			return &NonFiniteError{Index: i, Value: e, Samples: len(s.indices), Sample: -1, err: ErrNonFinite}
		}
	}
	return nil
}

// read copies a program's value to the host.
func (t *Trainer) read(s *slot, v ir.Value) ([]byte, error) {
	h, err := t.arena.Handle(t.at(v.Ref, s.index), v.Name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, v.Ref.Size)
	return b, h.Read(b)
}
