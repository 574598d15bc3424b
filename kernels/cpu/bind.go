package cpu

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// float is what arithmetic is done in.
type float interface{ float32 | float64 }

// A kernel is how this device executes an operation.
type kernel struct {
	// bind prepares a call: it returns what Launch runs, which allocates nothing, or nil where nothing is to be done.
	bind func(b *binding) (func(), error)
	// work returns the workspace of a call in bytes, which may depend on the device's threads and level. Nil: none.
	work func(d *Device, attrs any, in, out []kernels.Spec) int64
}

// A binding is one call while it is prepared. Its operands have been checked: they lie inside the memory and are
// aligned for their types.
type binding struct {
	kernels.Call
	dev  *Device
	prog *program
	mem  []byte
	base []int64
}

// bytes returns the memory of an operand, nil for one without elements: it lies nowhere.
func (b *binding) bytes(o kernels.Operand) []byte {
	n := o.Bytes()
	if n == 0 {
		return nil
	}
	at := b.base[o.Ref.Region] + o.Ref.Offset
	return b.mem[at : at+n : at+n]
}

// work returns the call's workspace.
func (b *binding) work() []byte {
	if b.Work.Size == 0 {
		return nil
	}
	at := b.base[b.Work.Region] + b.Work.Offset
	return b.mem[at : at+b.Work.Size : at+b.Work.Size]
}

// in returns input k as elements of T.
func in[T any](b *binding, k int) []T { return asm.View[T](b.bytes(b.In[k])) }

// out returns output k as elements of T.
func out[T any](b *binding, k int) []T { return asm.View[T](b.bytes(b.Out[k])) }

// parallelFor returns a launch of f on 0..n-1 in ranges of grain, at the same time where there is more than one.
// The ranges depend on n and grain only, so what f computes in one of them does not depend on the pool.
func (b *binding) parallelFor(n, grain int, f func(lo, hi, worker int)) func() {
	grain = max(grain, 1)
	if n <= grain {
		return func() { f(0, n, 0) }
	}
	p := b.dev.pool
	t := part(func(i, worker int) { f(i*grain, min(n, (i+1)*grain), worker) })
	pieces := (n + grain - 1) / grain
	return func() { p.run(t, pieces) }
}

// part is a task given by its function.
type part func(i, worker int)

func (f part) do(i, worker int) { f(i, worker) }

// program is a list of prepared calls.
type program struct {
	dev    *Device
	calls  []bound
	slow   []*kernels.Op // ops without a kernel of their own, which run by their meaning
	failed error         // set by a call that went wrong, taken by Launch
}

// bound is one prepared call.
type bound struct {
	run   func()
	index int // in the list given to Bind
	name  string
	label string
}

// Bind prepares calls. It reports everything that is wrong with them at once.
func (d *Device) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	if err := d.usable("bind"); err != nil {
		return nil, err
	}
	if at.Memory == nil {
		return nil, fmt.Errorf("cpu: bind: no memory")
	}
	if len(at.Pinned) > 0 {
		return nil, fmt.Errorf("cpu: bind: regions in pinned memory, which is no other than the device's: %w", arena.ErrInvalid)
	}
	mem := at.Memory.Bytes()
	if mem == nil && at.Memory.Size() > 0 {
		return nil, fmt.Errorf("cpu: bind: memory of %d bytes: %w", at.Memory.Size(), arena.ErrFreed)
	}
	p := &program{dev: d, calls: make([]bound, 0, len(calls))}
	var errs []error
	for i, c := range calls {
		run, err := p.bind(c, mem, at.Base)
		if err != nil {
			errs = append(errs, fmt.Errorf("cpu: call %d %q: %w", i, c.Label, err))
			continue
		}
		if run != nil {
			p.calls = append(p.calls, bound{run, i, c.Op.Name, c.Label})
		}
	}
	for _, c := range at.After {
		to, from, err := d.copying(c.Dst, c.Src)
		if err != nil {
			errs = append(errs, fmt.Errorf("cpu: bind: %w", err))
		}
		p.calls = append(p.calls, bound{func() { copy(to, from) }, len(calls), "copy", "after the calls"})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

func (p *program) bind(c kernels.Call, mem []byte, base []int64) (func(), error) {
	if c.Op == nil {
		return nil, fmt.Errorf("no operation: %w", kernels.ErrUnsupported)
	}
	in, out := kernels.Specs(c.In), kernels.Specs(c.Out)
	if err := p.dev.Supports(c.Op, c.Attrs, in, out); err != nil {
		return nil, err
	}
	for k, o := range c.In {
		if err := checkOperand(o, mem, base); err != nil {
			return nil, fmt.Errorf("%s input %d: %w", c.Op.Name, k, err)
		}
	}
	for k, o := range c.Out {
		if err := checkOperand(o, mem, base); err != nil {
			return nil, fmt.Errorf("%s output %d: %w", c.Op.Name, k, err)
		}
	}
	for k, i := range kernels.UpdatesOf(c.Op, c.Attrs) {
		if c.Out[k].Ref.Region != c.In[i].Ref.Region || c.Out[k].Ref.Offset != c.In[i].Ref.Offset {
			return nil, fmt.Errorf("%s output %d must lie on input %d, which it updates", c.Op.Name, k, i)
		}
	}
	if err := checkRef(c.Work, p.dev.Workspace(c.Op, c.Attrs, in, out), 8, mem, base); err != nil {
		return nil, fmt.Errorf("%s workspace: %w", c.Op.Name, err)
	}
	return lookup(c.Op).bind(&binding{c, p.dev, p, mem, base})
}

func checkOperand(o kernels.Operand, mem []byte, base []int64) error {
	if err := checkRef(o.Ref, o.Bytes(), o.Type.Size(), mem, base); err != nil {
		return fmt.Errorf("%v: %w", o.Spec, err)
	}
	return nil
}

// checkRef returns an error unless a value of so many bytes lies at ref, inside ref and mem, and aligned.
func checkRef(ref arena.Ref, bytes, align int64, mem []byte, base []int64) error {
	if bytes == 0 && ref.Size == 0 {
		return nil
	}
	if ref.Region < 0 || int(ref.Region) >= len(base) {
		return fmt.Errorf("region %d of %d", ref.Region, len(base))
	}
	at := base[ref.Region] + ref.Offset
	if bytes > ref.Size || ref.Size < 0 || ref.Offset < 0 || at < 0 || at > int64(len(mem)) || ref.Size > int64(len(mem))-at {
		return fmt.Errorf("needs %d bytes, has %d at %d in a memory of %d", bytes, ref.Size, at, len(mem))
	}
	if misaligned(mem[at:], align) {
		return fmt.Errorf("address not a multiple of %d", align)
	}
	return nil
}

// Launch runs all calls in the caller. An error of a call skips the rest and is returned by the stream's next Sync.
func (p *program) Launch(s arena.Stream) error {
	if p.dev == nil {
		return fmt.Errorf("cpu: launch of a program: %w", arena.ErrClosed)
	}
	st, ok := s.(*stream)
	if !ok || st.dev != p.dev {
		return fmt.Errorf("cpu: launch: the stream is not of this device")
	}
	return st.launch(p)
}

// run executes the calls up to the first that goes wrong, and sets err where one does. It does not return it: a
// function of the host can end the goroutine.
func (p *program) run(err *error) {
	var c *bound
	whole := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			*err = fmt.Errorf("cpu: call %d %s %q: panic: %v", c.index, c.name, c.label, v)
		case !whole:
			*err = fmt.Errorf("cpu: call %d %s %q: %w", c.index, c.name, c.label, errExit)
		}
	}()
	for i := range p.calls {
		c = &p.calls[i]
		c.run()
		if p.failed != nil {
			*err = fmt.Errorf("cpu: call %d %s %q: %w", c.index, c.name, c.label, p.failed)
			p.failed = nil
			break
		}
	}
	whole = true
}

// Close releases the prepared calls, after which Launch does nothing but say so.
func (p *program) Close() error {
	p.calls, p.dev = nil, nil
	return nil
}
