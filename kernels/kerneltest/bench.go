package kerneltest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Bytes that fill memory before a launch. As floats they are small numbers, and NaN.
const (
	guardByte  = 0xA5 // between operands: must stay
	poisonByte = 0xFF // in outputs and workspace: must not be read
)

// The kinds of bytes in memory.
const (
	guard byte = iota
	input
	output
	work
)

// bench runs single calls on a device.
type bench struct {
	dev    kernels.Device
	stream arena.Stream
}

// placed is a call with the memory that it runs in.
type placed struct {
	call  kernels.Call
	size  int64  // bytes
	image []byte // memory before the launch
	kind  []byte // by byte: guard, input, output, work
	base  []int64
}

// place lays out a call: inputs in region 0, outputs in region 1, the workspace in region 2, with
// guard bytes around each. Output k occupies the place of input onto[k], if that is not negative.
// With odd, operands are aligned for their elements only, as views are.
func (b *bench) place(op *kernels.Op, attrs any, in []kernels.Tensor, out []kernels.Spec, onto []int, odd bool) *placed {
	p := &placed{call: kernels.Call{Op: op, Attrs: attrs, Label: "test/" + op.Name}}
	at := int64(arena.Align)
	next := func(bytes, elem int64) int64 {
		start := at
		if odd {
			start += elem
		}
		at = arena.Round(start+bytes) + arena.Align
		return start
	}
	var places []span
	p.base = []int64{0, 0, 0}
	specs := make([]kernels.Spec, len(in))
	for i, x := range in {
		specs[i] = x.Spec
		start := next(x.Bytes(), x.Type.Size())
		p.call.In = append(p.call.In, kernels.Operand{Spec: x.Spec, Ref: arena.Ref{Region: 0, Offset: start, Size: x.Bytes()}})
		places = append(places, span{start, x.Bytes(), input})
	}
	p.base[1] = at
	for k, s := range out {
		if k < len(onto) && onto[k] >= 0 {
			o := p.call.In[onto[k]]
			p.call.Out = append(p.call.Out, o)
			places[onto[k]].kind = output
			continue
		}
		start := next(s.Bytes(), s.Type.Size())
		p.call.Out = append(p.call.Out, kernels.Operand{Spec: s, Ref: arena.Ref{Region: 1, Offset: start - p.base[1], Size: s.Bytes()}})
		places = append(places, span{start, s.Bytes(), output})
	}
	p.base[2] = at
	if n := b.dev.Workspace(op, attrs, specs, out); n > 0 {
		places = append(places, span{at, n, work})
		p.call.Work = arena.Ref{Region: 2, Size: n}
		at = arena.Round(at+n) + arena.Align
	}
	p.size = at
	p.paint(places, in)
	return p
}

// span is a range of bytes of one kind.
type span struct {
	start, size int64
	kind        byte
}

// paint sets the memory before the launch.
func (p *placed) paint(places []span, in []kernels.Tensor) {
	p.image, p.kind = bytes.Repeat([]byte{guardByte}, int(p.size)), make([]byte, p.size)
	for i, s := range places {
		for j := s.start; j < s.start+s.size; j++ {
			p.kind[j] = s.kind
			p.image[j] = poisonByte
		}
		if i < len(in) {
			kernels.Store(p.image[s.start:], in[i].Type, in[i].Data)
		}
	}
}

// run launches the call the given number of times, each time on fresh memory, and returns the bytes
// of its outputs. It returns an error if two launches differ, or if bytes outside outputs and
// workspace change.
func (b *bench) run(p *placed, launches int) (out [][]byte, err error) {
	mem, err := b.dev.Alloc(p.size)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, mem.Free()) }()
	prog, err := b.dev.Bind([]kernels.Call{p.call}, kernels.Binding{Memory: mem, Base: p.base})
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, prog.Close()) }()
	for i := range launches {
		if err := b.write(mem, p.image); err != nil {
			return nil, err
		}
		if err := prog.Launch(b.stream); err != nil {
			return nil, err
		}
		if err := b.stream.Sync(); err != nil {
			return nil, err
		}
		after, err := b.read(mem)
		if err != nil {
			return nil, err
		}
		if err := p.intact(after); err != nil {
			return nil, err
		}
		again := p.outputs(after)
		if i > 0 && !slices.EqualFunc(out, again, bytes.Equal) {
			return nil, fmt.Errorf("launch %d gives other bits than launch 0", i)
		}
		out = again
	}
	return out, nil
}

// intact returns an error if a byte of an input or a guard has changed.
func (p *placed) intact(after []byte) error {
	for i, k := range p.kind {
		if after[i] != p.image[i] && (k == guard || k == input) {
			return fmt.Errorf("byte %d of the memory was written: %#x, was %#x (%s)", i, after[i], p.image[i],
				p.where(int64(i)))
		}
	}
	return nil
}

// where names the operand that contains or precedes byte i.
func (p *placed) where(i int64) string {
	name, best := "before all operands", int64(-1)
	note := func(what string, k int, o kernels.Operand) {
		if at := p.base[o.Ref.Region] + o.Ref.Offset; at <= i && at > best {
			best = at
			name = fmt.Sprintf("byte %d from %s %d, %v of %d bytes", i-at, what, k, o.Spec, o.Bytes())
		}
	}
	for k, o := range p.call.In {
		note("input", k, o)
	}
	for k, o := range p.call.Out {
		note("output", k, o)
	}
	return name
}

// outputs returns the bytes of each output.
func (p *placed) outputs(after []byte) [][]byte {
	out := make([][]byte, len(p.call.Out))
	for k, o := range p.call.Out {
		at := p.base[o.Ref.Region] + o.Ref.Offset
		out[k] = after[at : at+o.Bytes()]
	}
	return out
}

// write fills device memory, through pinned memory if the host cannot access it.
func (b *bench) write(mem arena.Memory, image []byte) error {
	if host := mem.Bytes(); host != nil {
		copy(host, image)
		return nil
	}
	return b.staged(mem, func(pinned arena.Memory) error {
		copy(pinned.Bytes(), image)
		return b.stream.Copy(whole(mem), whole(pinned))
	}, nil)
}

// read returns a copy of device memory.
func (b *bench) read(mem arena.Memory) (image []byte, err error) {
	if host := mem.Bytes(); host != nil {
		return slices.Clone(host), nil
	}
	err = b.staged(mem, func(pinned arena.Memory) error {
		return b.stream.Copy(whole(pinned), whole(mem))
	}, func(pinned arena.Memory) { image = slices.Clone(pinned.Bytes()) })
	return image, err
}

// staged runs a copy through a pinned block as large as mem, waits, and calls then.
func (b *bench) staged(mem arena.Memory, copy func(pinned arena.Memory) error, then func(pinned arena.Memory)) (err error) {
	pinned, err := b.dev.Pin(mem.Size())
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, pinned.Free()) }()
	if err := copy(pinned); err != nil {
		return err
	}
	if err := b.stream.Sync(); err != nil {
		return err
	}
	if then != nil {
		then(pinned)
	}
	return nil
}

// whole is the span of all of m.
func whole(m arena.Memory) arena.Span { return arena.Span{Memory: m, Size: m.Size()} }

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// oddly returns true in one case of four, in which operands are aligned for their elements only.
func oddly(r *rand.Rand) bool { return r.IntN(4) == 0 }
