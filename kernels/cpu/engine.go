package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// An engine is a recipe bound to memory.
type engine[T float] struct {
	recipe
	in    [][]byte // inputs
	out   []T      // nil where it is pulled
	size  int      // bytes of an element
	steps []step[T]
	fill  func(dst []T, v T)
	crew  []crew[T]

	program []uint32 // nil: steps are run one by one
	chain   func(slots [][]T, program []uint32, n int)
}

// A crew is what one worker has to itself.
type crew[T float] struct {
	work  []byte   // its tiles
	slots [][]T    // by source: the present tile
	raw   [][]byte // by input: the same as bytes
	held  []held   // by source: what its tile of the workspace holds
	_     [asm.CacheLine]byte
}

// held says what a tile holds: the first n elements from a place in the period on, or n times the element at pos.
type held struct{ place, pos, n int }

// A step is a stage with its function: one of the three.
type step[T float] struct {
	stage
	unary  elementwise.UnaryFunc[T]
	binary elementwise.BinaryFunc[T]
	decode elementwise.DecodeFunc[T]
	fill   bool
	value  T
}

func bindElementwise(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindEngine[float32](b)
	case arena.Float64:
		return bindEngine[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

func bindEngine[T float](b *binding) (func(), error) {
	r, err := newRecipe(b.Op, b.Attrs, kernels.Specs(b.In), b.Out[0].Spec, false)
	if err != nil || r.n == 0 {
		return nil, err
	}
	e := newEngine[T](b, r, b.work())
	e.out = out[T](b, 0)
	run := b.over(r.n, r.grain(), e.piece)
	if r.tiles == 0 {
		return run, nil
	}
	return func() {
		e.forget()
		run()
	}, nil
}

// newEngine binds a recipe to the inputs of b and to work.
func newEngine[T float](b *binding, r *recipe, work []byte) *engine[T] {
	e := &engine[T]{recipe: *r, fill: elementwise.At[T](b.dev.level).Fill, size: asm.SizeOf[T]()}
	for _, o := range b.In {
		e.in = append(e.in, b.bytes(o))
	}
	for _, s := range r.stages {
		e.steps = append(e.steps, newStep[T](b, s))
	}
	if e.chain = elementwise.At[T](b.dev.level).Chain; e.chain != nil {
		e.program = chainProgram(r, len(e.in))
	}
	e.crew = make([]crew[T], r.workers(b.dev.pool.threads()))
	for i := range e.crew {
		c := &e.crew[i]
		size := r.tiles * r.tile
		c.work, work = work[:size], work[size:]
		c.slots, c.raw, c.held = make([][]T, len(r.sources)), make([][]byte, len(e.in)), make([]held, len(r.sources))
	}
	return e
}

// newStep finds the function of a stage. An op that has none is computed element by element as it is defined.
func newStep[T float](b *binding, s stage) step[T] {
	st := step[T]{stage: s}
	l := b.dev.level
	switch {
	case s.op == kernels.Fill:
		st.fill, st.value = true, T(s.attrs.(kernels.FillAttrs).Value)
	case s.op == kernels.Decode && s.a < len(b.In):
		st.decode = elementwise.Decode[T](l, b.In[s.a].Type, s.attrs.(kernels.DecodeAttrs))
	case s.op == kernels.Decode:
		a := s.attrs.(kernels.DecodeAttrs)
		st.unary = elementwise.AffineFloat64[T](a.Scale, a.Shift)
	case s.b < 0:
		if st.unary = elementwise.Unary[T](l, s.op, s.attrs); st.unary == nil {
			f, attrs := s.op.Elem, s.attrs
			st.unary = elementwise.Map[T](func(x float64) float64 { return f(attrs, x, 0) })
			b.prog.slow = append(b.prog.slow, s.op)
		}
	default:
		if st.binary = elementwise.Binary[T](l, s.op, s.attrs); st.binary == nil {
			st.binary = elementwise.Map2[T](s.op, s.attrs)
			b.prog.slow = append(b.prog.slow, s.op)
		}
	}
	return st
}

// forget makes the tiles of the workspace hold nothing, as between two launches.
func (e *engine[T]) forget() {
	for i := range e.crew {
		clear(e.crew[i].held)
	}
}

// piece computes the output's elements lo..hi-1. Where nothing lies in tiles, it is one of them as a whole.
func (e *engine[T]) piece(lo, hi, worker int) {
	if e.tiles == 0 && (e.program != nil || len(e.steps) == 1) {
		e.compute(lo, hi-lo, worker)
		return
	}
	for lo < hi {
		n := min(e.step, hi-lo)
		if e.cut > 0 {
			n = min(n, e.cut-lo%e.cut)
		}
		e.compute(lo, n, worker)
		lo += n
	}
}

// compute runs all steps on n elements of the output from lo on and returns the last one's result.
func (e *engine[T]) compute(lo, n, worker int) []T {
	c := &e.crew[worker]
	for k := range e.in {
		b := e.load(c, k, lo, n)
		c.raw[k] = b
		if !e.sources[k].raw {
			c.slots[k] = asm.View[T](b)
		}
	}
	if e.program != nil {
		return e.runProgram(c, lo, n)
	}
	var dst []T
	for i := range e.steps {
		s, k := &e.steps[i], len(e.in)+i
		dst = e.result(c, i, lo, n)
		switch {
		case s.fill:
			e.constant(c, i, dst)
		case s.decode != nil:
			s.decode(dst, c.raw[s.a])
		case s.binary != nil:
			s.binary(dst, c.slots[s.a], c.slots[s.b])
		default:
			s.unary(dst, c.slots[s.a])
		}
		c.slots[k] = dst
	}
	return dst
}

// runProgram is compute by the chain's program.
func (e *engine[T]) runProgram(c *crew[T], lo, n int) []T {
	var dst []T
	for i := range e.steps {
		dst = e.result(c, i, lo, n)
		if e.steps[i].fill {
			e.constant(c, i, dst)
		}
		c.slots[len(e.in)+i] = dst
	}
	e.chain(c.slots, e.program, n)
	return dst
}

// result returns where n elements of a step's result go.
func (e *engine[T]) result(c *crew[T], i, lo, n int) []T {
	if t := e.steps[i].tile; t >= 0 {
		return asm.View[T](e.tileOf(c, t, n*e.size))
	}
	return e.out[lo : lo+n]
}

// constant fills the result of step i where it does not hold its number yet.
func (e *engine[T]) constant(c *crew[T], i int, dst []T) {
	h := &c.held[len(e.in)+i]
	if e.steps[i].tile < 0 || h.n < len(dst) {
		e.fill(dst, e.steps[i].value)
		h.n = len(dst)
	}
}

// tileOf returns a tile of the workspace.
func (e *engine[T]) tileOf(c *crew[T], tile, bytes int) []byte {
	at := tile * e.tile
	return c.work[at : at+bytes : at+bytes]
}

// load returns n elements of input k for the output's elements from lo on.
func (e *engine[T]) load(c *crew[T], k, lo, n int) []byte {
	s, h := &e.sources[k], &c.held[k]
	if s.tile < 0 {
		return e.in[k][lo*s.size : (lo+n)*s.size]
	}
	tile := e.tileOf(c, s.tile, n*s.size)
	place := lo % s.period
	if h.place == place && h.pos < 0 && n <= h.n {
		return tile
	}
	if place%s.inner+n <= s.inner { // inside one run
		pos := s.walk.offset(place)
		switch {
		case s.walk.stride[s.walk.rank-1] == 1:
			return e.in[k][pos*s.size : (pos+n)*s.size]
		case h.pos != pos || n > h.n:
			e.fill(asm.View[T](tile), asm.View[T](e.in[k])[pos])
			*h = held{place: -1, pos: pos, n: n}
		}
		return tile
	}
	gather(asm.View[T](tile), asm.View[T](e.in[k]), &s.walk, place, e.fill)
	*h = held{place: place, pos: -1, n: n}
	return tile
}
