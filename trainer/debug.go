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
// The sentry reads and writes host memory. On a device with memory of its own that is a mirror of the
// scratch region in pinned memory: it is copied from the device after each call, and back after the
// sentry.
type debugger struct {
	ir     *ir.Program
	memory *memory
	calls  []kernels.Program // by instruction; nil for views
	after  []kernels.Copy    // at the end of the program
	sentry *arena.Sentry

	scratch arena.Span
	mirror  arena.Span // the zero span on unified devices
}

// newDebugger makes a debugger for a program.
func newDebugger(m *memory, p *ir.Program, at kernels.Binding) (*debugger, error) {
	d := &debugger{ir: p, memory: m, after: at.After}
	at.After = nil
	var err error
	if d.calls, err = bindEach(m.device, p, at); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.scratch = m.span(m.ref(arena.Ref{Region: ir.Scratch, Size: p.Plan.Bytes}, 0))
	host := d.scratch
	if !m.unified {
		d.mirror = m.mirror(p.Plan.Bytes)
		host = d.mirror
	}
	d.sentry, err = arena.NewSentry(p.Problem, p.Plan, bytesOf(host))
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
	d.memory.willWrite(d.mirror)
	d.sentry.Begin()
	if err := d.copy(s, d.scratch, d.mirror); err != nil {
		return err
	}
	for i, c := range d.calls {
		if c != nil {
			if err := errors.Join(c.Launch(s), s.Sync(), d.copy(s, d.mirror, d.scratch)); err != nil {
				return err
			}
		}
		d.memory.willWrite(d.mirror)
		if err := d.sentry.After(int32(i), d.ir.Instrs[i].Label); err != nil {
			return err
		}
		if err := d.copy(s, d.scratch, d.mirror); err != nil {
			return err
		}
	}
	for _, c := range d.after {
		if err := s.Copy(c.Dst, c.Src); err != nil {
			return err
		}
	}
	return nil
}

// copy copies between the mirror and the scratch region, and waits for it.
func (d *debugger) copy(s arena.Stream, dst, src arena.Span) error {
	if d.mirror.Size == 0 {
		return nil
	}
	return errors.Join(s.Copy(dst, src), s.Sync())
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
