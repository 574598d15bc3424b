package trainer

import (
	"errors"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// debugger runs a program call by call and checks scratch after each call. The plan of a program
// that was compiled for it leaves guard bytes around every buffer. The sentry fills bytes that no
// buffer uses with NaN: a kernel that writes outside its buffers changes guard bytes, and a kernel
// that reads a dead buffer computes NaN.
//
// The memory must be the host's, so that the sentry can read it.
type debugger struct {
	ir     *ir.Program
	calls  []kernels.Program // by instruction; nil for views
	sentry *arena.Sentry
}

// newDebugger makes a debugger for a program.
func newDebugger(m *memory, p *ir.Program, at kernels.Binding) (*debugger, error) {
	d := &debugger{ir: p}
	var err error
	if d.calls, err = bindEach(m.device, p, at); err != nil {
		return nil, errors.Join(err, d.close())
	}
	scratch := bytesOf(m.span(m.ref(arena.Ref{Region: ir.Scratch, Size: p.Plan.Bytes}, 0)))
	d.sentry, err = arena.NewSentry(p.Problem, p.Plan, scratch)
	return d, err
}

// bindEach binds each instruction of p by itself. The caller closes the calls, after an error too.
func bindEach(dev kernels.Device, p *ir.Program, at kernels.Binding) ([]kernels.Program, error) {
	calls := make([]kernels.Program, len(p.Instrs))
	for i := range p.Instrs {
		c, ok := p.Call(i)
		if !ok {
			continue
		}
		var err error
		if calls[i], err = dev.Bind([]kernels.Call{c}, at); err != nil {
			return calls, err
		}
	}
	return calls, nil
}

// launch runs the program on s and waits for it. It returns the first error of a call or a check.
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

// close releases the calls.
func (d *debugger) close() error { return closeAll(d.calls) }

// closeAll closes programs that are not nil.
func closeAll(programs []kernels.Program) error {
	var errs []error
	for _, p := range programs {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
