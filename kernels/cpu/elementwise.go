package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// Elementwise ops and chains of them are one engine: it walks the output in tiles that stay in the first-level cache,
// and runs every step over a tile before it goes to the next. An op alone is a chain of one step. An operand that lies
// like the output is read in place. One that is broadcast has a tile of the workspace, which is filled only where its
// values are not those of the tile before, and not where they lie together in memory:
//
//	[N] in [B, N], N <= tileLen   once, since tiles are some whole rows
//	[N] in [B, N], N >  tileLen   read in place: tiles end where rows end
//	[C, 1] in [B, C, N]           a number, set once for each of C where N is long

const (
	tileLen    = reduce.TileLen // elements of a tile
	maxPull    = 4 * 1024       // most elements that a reduction asks for at once
	tileAlign  = 64             // bytes: workers never share a cache line
	cheapGrain = 16 * 1024      // elements of a piece when an element costs about an addition
)

// An operand is an operand of a chain: an input, a constant, or what an earlier step made.
type operand struct {
	index  stridedIndex
	size   int  // bytes of an element
	raw    bool // of another type than the chain: what a decode reads, which is not broadcast
	tile   int  // tile of the workspace that holds it, -1: it is read in place
	period int  // after so many elements of the output come the same ones again
	inner  int  // elements of the last dimension
}

// An operation is one step of a chain.
type operation struct {
	op    *kernels.Op
	attrs any
	a, b  int // sources, -1: none
	tile  int // where its result goes, -1: the output
}

// A chainPlan is a chain before it is bound: the same for Workspace and for Bind.
type chainPlan struct {
	n          int  // elements of the output
	pulled     bool // a reduction asks for the output tile by tile
	minPiece   int  // elements of a piece, before it is made whole tiles
	tileStep   int  // elements of a tile
	rowLen     int  // tiles end where runs of so many elements end, 0: nowhere
	operands   []operand
	operations []operation
	tiles      int // of the workspace, for each worker
	tile       int // bytes of a tile
}

// workers returns how many workers take part.
func (r *chainPlan) workers(threads int) int {
	if r.pulled {
		return threads
	}
	return min(threads, max(1, ceilDiv(r.n, r.minPiece)))
}

// bytes returns the size of the workspace.
func (r *chainPlan) bytes(threads int) int64 {
	return int64(r.workers(threads)) * int64(r.tiles) * int64(r.tile)
}

func elementwiseWork(op *kernels.Op) func(d *Device, attrs any, in, out []kernels.Spec) int64 {
	return func(d *Device, attrs any, in, out []kernels.Spec) int64 {
		r, err := newChainPlan(op, attrs, in, out[0], false)
		if err != nil {
			return 0
		}
		return r.bytes(d.pool.threads())
	}
}

// newChainPlan lays out an op or a chain: which operands need a tile, and which tiles the steps share.
func newChainPlan(op *kernels.Op, attrs any, in []kernels.Spec, out kernels.Spec, pulled bool) (*chainPlan, error) {
	r := &chainPlan{n: out.Shape.Elems(), pulled: pulled}
	size := int(out.Type.Size())
	widest := size
	for _, s := range in {
		src := newOperand(s, out)
		if !src.index.contiguous() {
			src.tile = r.tiles
			r.tiles++
			widest = max(widest, src.size)
		}
		r.operands = append(r.operands, src)
	}
	longest := tileLen
	if pulled {
		longest = maxPull
	}
	r.tile = (min(longest, r.n)*widest + tileAlign - 1) &^ (tileAlign - 1)
	r.sizeTiles()
	steps := []kernels.Step{{Op: op, Attrs: attrs, A: 0, B: len(in) - 1}}
	if op == kernels.Chain {
		c, ok := attrs.(*kernels.ChainAttrs)
		if !ok || len(c.Steps) == 0 {
			return nil, fmt.Errorf("chain without steps: %w", kernels.ErrUnsupported)
		}
		steps = c.Steps
	} else if len(in) == 1 {
		steps[0].B = -1
	}
	cost := 0
	for _, s := range steps {
		r.operations = append(r.operations, operation{s.Op, s.Attrs, s.A, s.B, -1})
		r.operands = append(r.operands, operand{size: size, tile: -1})
		cost += elementwise.Cost(s.Op)
	}
	r.minPiece = max(tileLen, cheapGrain/cost)
	return r, r.assignTiles(len(in))
}

// newOperand says where an operand's elements lie.
func newOperand(s, out kernels.Spec) operand {
	src := operand{index: broadcastIndex(s.Shape, out.Shape), size: int(s.Type.Size()), raw: s.Type != out.Type, tile: -1}
	w := &src.index
	src.period, src.inner = w.elems(), 1
	if w.rank > 0 {
		src.inner = w.dims[w.rank-1]
	}
	if w.rank > 0 && w.stride[0] == 0 && w.dims[0] > 0 {
		src.period /= w.dims[0]
	}
	return src
}

// sizeTiles decides how long tiles are. Where an operand has long runs that do not soon come again, tiles end with them;
// otherwise they are some of the longest period, so that all tiles see the same elements of the operand.
func (r *chainPlan) sizeTiles() {
	const long = 256 // elements of a run that is worth a tile of its own
	period := 1
	for i := range r.operands {
		switch s := &r.operands[i]; {
		case s.tile < 0:
		case s.period <= tileLen:
			period = max(period, s.period)
		case s.inner >= long:
			r.rowLen = max(r.rowLen, s.inner)
		}
	}
	r.tileStep = tileLen / period * period
	if r.rowLen > 0 {
		r.tileStep = ceilDiv(r.rowLen, ceilDiv(r.rowLen, tileLen))
	}
}

// grain returns the elements of a piece: whole tiles, and all pieces about the same.
func (r *chainPlan) grain() int {
	each := ceilDiv(r.n, ceilDiv(r.n, r.minPiece))
	return ceilDiv(each, r.tileStep) * r.tileStep
}

// assignTiles gives every step but the last a tile; a tile is free again after the last step that reads it. Constants keep
// theirs, since they are written once.
func (r *chainPlan) assignTiles(inputs int) error {
	last := make([]int, len(r.operands))
	for i, s := range r.operations {
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
	stages := r.operations
	if !r.pulled {
		stages = stages[:len(stages)-1] // whose result is the output
	}
	for i := range stages {
		s := &stages[i]
		if k := len(free) - 1; k >= 0 && s.op != kernels.Fill {
			s.tile, free = free[k], free[:k]
		} else {
			s.tile = r.tiles
			r.tiles++
		}
		r.operands[inputs+i].tile = s.tile
		for k := inputs; k < inputs+i; k++ {
			if last[k] == i && r.operations[k-inputs].op != kernels.Fill {
				free = append(free, r.operations[k-inputs].tile)
			}
		}
	}
	return nil
}
