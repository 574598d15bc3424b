package trainer

import (
	"errors"

	"github.com/evenkeel/evenkeel/arena"
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
	span := t.span(t.at(arena.Ref{Region: ir.Scratch, Size: t.scratch}, 0))
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
