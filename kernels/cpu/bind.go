package cpu

import (
	"errors"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

// float is a type that kernels compute in.
type float interface{ float32 | float64 }

// kernel is this device's code for an operation.
type kernel struct {
	// bind prepares a call: it returns the function that a launch runs, which allocates nothing, or
	// nil if there is nothing to do.
	bind func(b *binding) (func(), error)
	// work returns the workspace of a call in bytes, which may depend on the device's threads and
	// level. Nil: none.
	work func(d *Device, attrs any, in, out []kernels.Spec) int64
}

// binding is one call while it is prepared. Its operands are checked: they lie inside the memory
// and are aligned for their types.
type binding struct {
	kernels.Call
	dev  *Device
	prog *program
	nth  int // index of the call in the list given to Bind
	mem  []byte
	base []int64
}

// bytes returns the memory of an operand, nil if it has no elements.
func (b *binding) bytes(o kernels.Operand) []byte {
	n := o.Bytes()
	if n == 0 {
		return nil
	}
	at := b.base[o.Ref.Region] + o.Ref.Offset
	return b.mem[at : at+n : at+n]
}

// all returns the memory of operands.
func (b *binding) all(operands []kernels.Operand) [][]byte {
	memory := make([][]byte, len(operands))
	for k, o := range operands {
		memory[k] = b.bytes(o)
	}
	return memory
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

// parallelFor returns a function that calls f for 0..n-1 in ranges of grain, in parallel if there
// is more than one. The ranges depend on n and grain only, so the results of f do not depend on the
// number of workers.
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

// part is a task of the pool, as a function.
type part func(i, worker int)

func (f part) do(i, worker int) { f(i, worker) }

// program is a list of prepared calls.
type program struct {
	dev    *Device
	calls  []bound
	slow   []*kernels.Op // ops without a kernel, which run by their reference
	failed error         // set by a call that fails, taken by Launch
	// memories are the blocks of this device that the calls use. Each launch keeps them mapped.
	memories []*memory
	timing   *timing // of the launch that runs; nil: it is not timed
	// Of calls of groups: sums by label, and all that Close releases.
	pending    map[string]*pendingSums
	operations []io.Closer
}

// fail records the first error of a call.
func (p *program) fail(err error) {
	if err != nil && p.failed == nil {
		p.failed = err
	}
}

// bound is one prepared call.
type bound struct {
	run   func()
	index int // in the list given to Bind
	name  string
	label string
}

// Bind prepares calls. It reports all mistakes at once.
func (d *Device) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	if err := d.usable("bind"); err != nil {
		return nil, err
	}
	if at.Memory == nil {
		return nil, fmt.Errorf("cpu: bind: no memory")
	}
	if len(at.Pinned) > 0 {
		return nil, fmt.Errorf("cpu: bind: a device with unified memory has no regions in pinned memory: %w", arena.ErrInvalid)
	}
	p := &program{dev: d, calls: make([]bound, 0, len(calls))}
	if m, ok := at.Memory.(*memory); ok {
		p.memories = append(p.memories, m)
	}
	if !retainAll(p.memories) {
		return nil, fmt.Errorf("cpu: bind: memory of %d bytes: %w", at.Memory.Size(), arena.ErrFreed)
	}
	defer doneAll(p.memories)
	mem := at.Memory.Bytes()
	if mem == nil && at.Memory.Size() > 0 {
		return nil, fmt.Errorf("cpu: bind: memory of %d bytes: %w", at.Memory.Size(), arena.ErrFreed)
	}
	places := devcheck.Of(at)
	places.Aligned = func(at, align int64) bool { return !misaligned(mem[at:], align) }
	var errs []error
	for i, c := range calls {
		run, err := p.bind(i, c, mem, places)
		if err != nil {
			errs = append(errs, fmt.Errorf("cpu: call %d %q: %w", i, c.Label, err))
			continue
		}
		if run != nil {
			p.calls = append(p.calls, bound{run, i, c.Op.Name, c.Label})
		}
	}
	var after []*memory
	for _, c := range at.After {
		to, from, err := d.copyBytes(c.Dst, c.Src)
		if err != nil {
			errs = append(errs, fmt.Errorf("cpu: bind: %w", err))
			continue
		}
		used := memoriesOf(c.Dst, c.Src)
		after = append(after, used[:]...)
		p.calls = append(p.calls, bound{func() { copy(to, from) }, len(calls), "copy", "after the calls"})
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, p.closeOperations())...)
	}
	p.memories = append(p.memories, after...)
	return p, nil
}

// bind prepares call number nth.
func (p *program) bind(nth int, c kernels.Call, mem []byte, at devcheck.Memory) (func(), error) {
	in, out := kernels.Specs(c.In), kernels.Specs(c.Out)
	if err := p.dev.Supports(c.Op, c.Attrs, in, out); err != nil {
		return nil, err
	}
	if err := at.Call(&c, p.dev.Workspace(c.Op, c.Attrs, in, out)); err != nil {
		return nil, err
	}
	return lookup(c.Op).bind(&binding{c, p.dev, p, nth, mem, at.Base})
}

// Launch runs all calls in the caller's goroutine. After a call that fails the rest is skipped, and
// the stream's next Sync returns the error.
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

// run executes the calls up to the first that fails, whose error it stores in err: a return value
// would be lost if a function of the host ends the goroutine.
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
		if p.timing == nil {
			c.run()
		} else {
			p.timing.run(c)
		}
		if p.failed != nil {
			*err = fmt.Errorf("cpu: call %d %s %q: %w", c.index, c.name, c.label, p.failed)
			p.failed = nil
			break
		}
	}
	whole = true
}

// Close releases the prepared calls. Later launches return arena.ErrClosed.
func (p *program) Close() error {
	p.calls, p.dev, p.memories = nil, nil, nil
	return p.closeOperations()
}
