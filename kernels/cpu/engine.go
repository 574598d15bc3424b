package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// An engine is a chainPlan bound to memory.
type engine[T float] struct {
	chainPlan
	in      [][]byte // inputs
	out     []T      // nil where a reduction reads it
	size    int      // bytes of an element
	steps   []step[T]
	fill    func(dst []T, v T)
	workers []workerState[T]

	program  []uint32 // for assembly. Nil: steps run one by one
	runCodes func(slots [][]T, program []uint32, n int)
}

// A workerState holds what one worker writes to.
type workerState[T float] struct {
	work  []byte      // its tiles
	slots [][]T       // by operand: the current tile
	bytes [][]byte    // by input: the current tile as bytes
	tiles []tileState // by operand: the contents of its tile in the workspace
	_     [asm.CacheLine]byte
}

// tileState describes the contents of a tile: n elements from a place in the operand's period on,
// or n times the element at pos.
type tileState struct{ period, pos, n int }

// A step is an operation with its function: unary, binary or decode, or a constant.
type step[T float] struct {
	operation
	unary  elementwise.UnaryFunc[T]
	binary elementwise.BinaryFunc[T]
	decode elementwise.DecodeFunc[T]
	fill   bool
	value  T
}

// bindElementwise prepares an elementwise op or a chain.
func bindElementwise(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindEngine[float32](b)
	case arena.Float64:
		return bindEngine[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindEngine plans the op, binds it to memory, and splits the output over threads.
func bindEngine[T float](b *binding) (func(), error) {
	r, err := newChainPlan(b.Op, b.Attrs, kernels.Specs(b.In), b.Out[0].Spec, false)
	if err != nil || r.n == 0 {
		return nil, err
	}
	e := newEngine[T](b, r, b.work())
	e.out = out[T](b, 0)
	run := b.parallelFor(r.n, r.grain(), e.piece)
	if r.tiles == 0 {
		return run, nil
	}
	return func() {
		e.invalidateTiles()
		run()
	}, nil
}

// newEngine binds a plan to the inputs of b and to work.
func newEngine[T float](b *binding, r *chainPlan, work []byte) *engine[T] {
	e := &engine[T]{chainPlan: *r, fill: elementwise.At[T](b.dev.level).Fill, size: asm.SizeOf[T]()}
	for _, o := range b.In {
		e.in = append(e.in, b.bytes(o))
	}
	for _, s := range r.operations {
		e.steps = append(e.steps, newStep[T](b, s))
	}
	if e.runCodes = elementwise.At[T](b.dev.level).Chain; e.runCodes != nil {
		e.program = newProgram(r, len(e.in))
	}
	// Each worker gets its tiles of the workspace, one after another.
	e.workers = make([]workerState[T], r.workers(b.dev.pool.threads()))
	for i := range e.workers {
		c := &e.workers[i]
		size := r.tiles * r.tile
		c.work, work = work[:size], work[size:]
		c.slots, c.bytes, c.tiles = make([][]T, len(r.operands)), make([][]byte, len(e.in)), make([]tileState, len(r.operands))
	}
	return e
}

// newStep finds the function of an operation. An op without one is computed by its definition,
// element by element.
func newStep[T float](b *binding, s operation) step[T] {
	st := step[T]{operation: s}
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

// invalidateTiles marks all tiles as empty. It must be called before each launch, because inputs
// may have changed.
func (e *engine[T]) invalidateTiles() {
	for i := range e.workers {
		clear(e.workers[i].tiles)
	}
}

// piece computes the output's elements lo..hi-1, tile by tile, or at once where no operand has a tile.
func (e *engine[T]) piece(lo, hi, worker int) {
	if e.tiles == 0 && (e.program != nil || len(e.steps) == 1) {
		e.compute(lo, hi-lo, worker)
		return
	}
	for lo < hi {
		n := min(e.tileStep, hi-lo)
		if e.rowLen > 0 {
			n = min(n, e.rowLen-lo%e.rowLen)
		}
		e.compute(lo, n, worker)
		lo += n
	}
}

// compute runs all steps on n elements of the output from lo on and returns the result of the last one.
func (e *engine[T]) compute(lo, n, worker int) []T {
	c := &e.workers[worker]
	for k := range e.in {
		b := e.loadOperand(c, k, lo, n)
		c.bytes[k] = b
		if !e.operands[k].raw {
			c.slots[k] = asm.View[T](b)
		}
	}
	if e.program != nil {
		return e.runProgram(c, lo, n)
	}
	var dst []T
	for i := range e.steps {
		s, k := &e.steps[i], len(e.in)+i
		dst = e.resultTile(c, i, lo, n)
		switch {
		case s.fill:
			e.fillConstant(c, i, dst)
		case s.decode != nil:
			s.decode(dst, c.bytes[s.a])
		case s.binary != nil:
			s.binary(dst, c.slots[s.a], c.slots[s.b])
		default:
			s.unary(dst, c.slots[s.a])
		}
		c.slots[k] = dst
	}
	return dst
}

// runProgram is compute for chains that assembly runs as a program.
func (e *engine[T]) runProgram(c *workerState[T], lo, n int) []T {
	var dst []T
	for i := range e.steps {
		dst = e.resultTile(c, i, lo, n)
		if e.steps[i].fill {
			e.fillConstant(c, i, dst)
		}
		c.slots[len(e.in)+i] = dst
	}
	e.runCodes(c.slots, e.program, n)
	return dst
}

// resultTile returns the memory of n elements of a step's result.
func (e *engine[T]) resultTile(c *workerState[T], i, lo, n int) []T {
	if t := e.steps[i].tile; t >= 0 {
		return asm.View[T](e.workTile(c, t, n*e.size))
	}
	return e.out[lo : lo+n]
}

// fillConstant fills the result of step i unless it already holds the constant.
func (e *engine[T]) fillConstant(c *workerState[T], i int, dst []T) {
	h := &c.tiles[len(e.in)+i]
	if e.steps[i].tile < 0 || h.n < len(dst) {
		e.fill(dst, e.steps[i].value)
		h.n = len(dst)
	}
}

// workTile returns a tile of the workspace.
func (e *engine[T]) workTile(c *workerState[T], tile, bytes int) []byte {
	at := tile * e.tile
	return c.work[at : at+bytes : at+bytes]
}

// loadOperand returns n elements of input k for the output's elements from lo on.
func (e *engine[T]) loadOperand(c *workerState[T], k, lo, n int) []byte {
	s, h := &e.operands[k], &c.tiles[k]
	if s.tile < 0 {
		return e.in[k][lo*s.size : (lo+n)*s.size]
	}
	tile := e.workTile(c, s.tile, n*s.size)
	place := lo % s.period
	// The tile still holds these elements: all tiles begin at the same place of the period.
	if h.period == place && h.pos < 0 && n <= h.n {
		return tile
	}
	if place%s.inner+n <= s.inner {
		// Inside one row the elements are contiguous, or one element repeated.
		pos := s.index.offset(place)
		switch {
		case s.index.stride[s.index.rank-1] == 1:
			return e.in[k][pos*s.size : (pos+n)*s.size]
		case h.pos != pos || n > h.n:
			e.fill(asm.View[T](tile), asm.View[T](e.in[k])[pos])
			*h = tileState{period: -1, pos: pos, n: n}
		}
		return tile
	}
	gather(asm.View[T](tile), asm.View[T](e.in[k]), &s.index, place, e.fill)
	*h = tileState{period: place, pos: -1, n: n}
	return tile
}
