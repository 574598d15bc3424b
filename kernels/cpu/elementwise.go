package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Elementwise ops and chains of them are one engine: it walks the output in tiles that stay in the first-level cache,
// and runs every step over a tile before it goes to the next. An op alone is a chain of one step. An operand that lies
// like the output is read in place; one that is broadcast is first gathered into a tile of the workspace.

const (
	tileLen    = 1024      // elements of a tile
	tileAlign  = 64        // bytes: workers never share a cache line
	cheapGrain = 16 * 1024 // elements of a piece when an element costs about an addition
)

// A source is an operand of a chain: an input, a constant, or what an earlier step made.
type source struct {
	walk walk
	size int  // bytes of an element
	raw  bool // of another type than the chain: only a decode may read it
	tile int  // tile of the workspace that holds it, -1: it is read in place
}

// A stage is one step of a chain.
type stage struct {
	op    *kernels.Op
	attrs any
	a, b  int // sources, -1: none
	tile  int // where its result goes, -1: the output
}

// A recipe is a chain before it is bound: the same for Workspace and for Bind.
type recipe struct {
	n       int // elements of the output
	grain   int // elements of a piece
	sources []source
	stages  []stage
	tiles   int // of the workspace, for each worker
	tile    int // bytes of a tile
}

// workers returns how many workers take part.
func (r *recipe) workers(threads int) int {
	return min(threads, max(1, (r.n+r.grain-1)/r.grain))
}

func elementwiseWork(op *kernels.Op) func(d *Device, attrs any, in, out []kernels.Spec) int64 {
	return func(d *Device, attrs any, in, out []kernels.Spec) int64 {
		r, err := newRecipe(op, attrs, in, out)
		if err != nil {
			return 0
		}
		return int64(r.workers(d.pool.threads())) * int64(r.tiles) * int64(r.tile)
	}
}

// newRecipe lays out an op or a chain: which operands need a tile, and which tiles the steps share.
func newRecipe(op *kernels.Op, attrs any, in, out []kernels.Spec) (*recipe, error) {
	r := &recipe{n: out[0].Shape.Elems()}
	size := int(out[0].Type.Size())
	widest := size
	for _, s := range in {
		src := source{walk: broadcastWalk(s.Shape, out[0].Shape), size: int(s.Type.Size()), raw: s.Type != out[0].Type, tile: -1}
		if !src.walk.whole() {
			src.tile = r.tiles
			r.tiles++
			widest = max(widest, src.size)
		}
		r.sources = append(r.sources, src)
	}
	r.tile = (min(tileLen, r.n)*widest + tileAlign - 1) &^ (tileAlign - 1)
	if op != kernels.Chain {
		r.sources = append(r.sources, source{size: size, tile: -1})
		b := -1
		if len(in) > 1 {
			b = 1
		}
		r.stages = []stage{{op, attrs, 0, b, -1}}
		r.grain = max(tileLen, cheapGrain/unaryCost(op))
		return r, nil
	}
	c, ok := attrs.(*kernels.ChainAttrs)
	if !ok || len(c.Steps) == 0 {
		return nil, fmt.Errorf("chain without steps: %w", kernels.ErrUnsupported)
	}
	cost := 0
	for _, s := range c.Steps {
		r.stages = append(r.stages, stage{s.Op, s.Attrs, s.A, s.B, -1})
		r.sources = append(r.sources, source{size: size, tile: -1})
		cost += unaryCost(s.Op)
	}
	r.grain = max(tileLen, cheapGrain/cost) / tileLen * tileLen
	return r, r.share(len(in))
}

// share gives every step but the last a tile; a tile is free again after the last step that reads it. Constants keep
// theirs, since they are written once a piece.
func (r *recipe) share(inputs int) error {
	last := make([]int, len(r.sources))
	for i, s := range r.stages {
		for _, k := range []int{s.a, s.b} {
			if k >= inputs+i || k < 0 && s.op != kernels.Fill && k == s.a {
				return fmt.Errorf("step %d of the chain reads operand %d: %w", i, k, kernels.ErrShape)
			}
			if k >= 0 {
				last[k] = i
			}
		}
	}
	var free []int
	for i := range r.stages[:len(r.stages)-1] {
		s := &r.stages[i]
		if k := len(free) - 1; k >= 0 && s.op != kernels.Fill {
			s.tile, free = free[k], free[:k]
		} else {
			s.tile = r.tiles
			r.tiles++
		}
		r.sources[inputs+i].tile = s.tile
		for k := inputs; k < inputs+i; k++ {
			if last[k] == i && r.stages[k-inputs].op != kernels.Fill {
				free = append(free, r.stages[k-inputs].tile)
			}
		}
	}
	return nil
}

// An engine is a recipe bound to memory.
type engine[T float] struct {
	recipe
	in    [][]byte // inputs
	out   []T
	work  []byte
	steps []step[T]
	slots [][][]T // by worker and source: the present tile
	bytes [][][]byte
	size  int
}

// A step is a stage with its function: one of the three.
type step[T float] struct {
	stage
	unary  unaryFunc[T]
	binary binaryFunc[T]
	decode decodeFunc[T]
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
	in, outSpecs := kernels.Specs(b.In), kernels.Specs(b.Out)
	r, err := newRecipe(b.Op, b.Attrs, in, outSpecs)
	if err != nil {
		return nil, err
	}
	if r.n == 0 {
		return nil, nil
	}
	e := &engine[T]{recipe: *r, out: out[T](b, 0), work: b.work(), size: int(b.Out[0].Type.Size())}
	for _, o := range b.In {
		e.in = append(e.in, b.bytes(o))
	}
	for _, s := range r.stages {
		e.steps = append(e.steps, newStep[T](b, s, in))
	}
	for range r.workers(b.dev.pool.threads()) {
		e.slots = append(e.slots, make([][]T, len(r.sources)))
		e.bytes = append(e.bytes, make([][]byte, len(in)))
	}
	return b.over(r.n, r.grain, e.piece), nil
}

// newStep finds the function of a stage. An op that has none is computed element by element as it is defined.
func newStep[T float](b *binding, s stage, in []kernels.Spec) step[T] {
	st := step[T]{stage: s}
	switch {
	case s.op == kernels.Fill:
		st.fill, st.value = true, T(s.attrs.(kernels.FillAttrs).Value)
	case s.op == kernels.Decode && s.a < len(in):
		st.decode = decodeTile[T](in[s.a].Type, s.attrs.(kernels.DecodeAttrs))
	case s.op == kernels.Decode:
		a := s.attrs.(kernels.DecodeAttrs)
		st.unary = affine64Tile[T](a.Scale, a.Shift)
	case s.b < 0:
		if st.unary = unaryTile[T](b.dev.level, s.op, s.attrs); st.unary == nil {
			f, attrs := s.op.Elem, s.attrs
			st.unary = mathTile[T](func(x float64) float64 { return f(attrs, x, 0) })
			b.prog.slow = append(b.prog.slow, s.op)
		}
	default:
		if st.binary = binaryTile[T](b.dev.level, s.op, s.attrs); st.binary == nil {
			st.binary = elemTile[T](s.op, s.attrs)
			b.prog.slow = append(b.prog.slow, s.op)
		}
	}
	return st
}

// tileOf returns a tile of the worker's part of the workspace.
func (e *engine[T]) tileOf(worker, tile, bytes int) []byte {
	at := (worker*e.tiles + tile) * e.tile
	return e.work[at : at+bytes : at+bytes]
}

// piece computes the output's elements lo..hi-1.
func (e *engine[T]) piece(lo, hi, worker int) {
	slots, raw := e.slots[worker], e.bytes[worker]
	n := min(tileLen, hi-lo)
	for k := range e.in {
		if s := &e.sources[k]; s.walk.scalar() {
			gatherBytes(e.tileOf(worker, s.tile, n*s.size), e.in[k], s.size, &s.walk, 0)
		}
	}
	for i := range e.steps {
		if s := &e.steps[i]; s.fill && s.tile >= 0 {
			set(view[T](e.tileOf(worker, s.tile, n*e.size)), s.value)
		}
	}
	for ; lo < hi; lo += n {
		n = min(n, hi-lo)
		for k := range e.in {
			b := e.load(k, lo, n, worker)
			raw[k] = b
			if !e.sources[k].raw {
				slots[k] = view[T](b)
			}
		}
		for i := range e.steps {
			e.compute(i, lo, n, worker, slots, raw)
		}
	}
}

// load returns n elements of input k for the output's elements from lo on.
func (e *engine[T]) load(k, lo, n, worker int) []byte {
	s := &e.sources[k]
	if s.tile < 0 {
		return e.in[k][lo*s.size : (lo+n)*s.size]
	}
	tile := e.tileOf(worker, s.tile, n*s.size)
	if !s.walk.scalar() {
		gatherBytes(tile, e.in[k], s.size, &s.walk, lo)
	}
	return tile
}

// compute runs step i on one tile.
func (e *engine[T]) compute(i, lo, n, worker int, slots [][]T, raw [][]byte) {
	s := &e.steps[i]
	dst := e.out[lo : lo+n]
	if s.tile >= 0 {
		dst = view[T](e.tileOf(worker, s.tile, n*e.size))
	}
	switch {
	case s.fill:
		if s.tile < 0 {
			set(dst, s.value)
		}
	case s.decode != nil:
		s.decode(dst, raw[s.a])
	case s.binary != nil:
		s.binary(dst, slots[s.a], slots[s.b])
	default:
		s.unary(dst, slots[s.a])
	}
	slots[len(e.in)+i] = dst
}
