package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// Elementwise ops and chains of them: y = f(a, b, …) with broadcast operands. One engine runs both;
// an op alone is a chain of one step. It cuts the output into tiles that stay in the first-level
// cache and runs all steps on a tile before the next tile. Threads split the output by elements. An
// operand with the layout of the output is read in place. A broadcast operand has a tile in the
// workspace, which is filled again only where its values differ from those of the tile before, and
// not where they are contiguous in memory:
//
//	[N] in [B, N], N <= tileLen   once, since tiles are some whole rows
//	[N] in [B, N], N >  tileLen   read in place: tiles end where rows end
//	[C, 1] in [B, C, N]           a number, set once for each of C where N is long

// Sizes of tiles and pieces.
const (
	tileLen    = reduce.TileLen // elements of a tile
	maxPull    = 4 * 1024       // most elements that a reduction reads at once
	tileAlign  = 64             // bytes: workers never share a cache line
	cheapGrain = 16 * 1024      // elements of a piece when an element costs about an addition
)

// An operand of a chain is an input, a constant, or the result of an earlier step.
type operand struct {
	index  stridedIndex
	size   int  // bytes of an element
	raw    bool // of another type than the chain: an operand of decode, which is not broadcast
	tile   int  // tile of the workspace that holds it. -1: it is read in place
	period int  // elements of the output after which the operand's elements repeat
	inner  int  // elements of the last dimension
}

// An operation is one step of a chain.
type operation struct {
	op    *kernels.Op
	attrs any
	a, b  int // operands. -1: none
	tile  int // tile of its result. -1: the output
}

// A chainPlan is a chain before it is bound to memory. Workspace and Bind compute the same one.
type chainPlan struct {
	n          int  // elements of the output
	pulled     bool // a reduction reads the output tile by tile, and it is never stored whole
	minPiece   int  // least elements of a piece, before it is rounded to whole tiles
	tileStep   int  // elements of a tile
	rowLen     int  // tiles end at multiples of it. 0: anywhere
	operands   []operand
	operations []operation
	tiles      int // in the workspace of each worker
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

// elementwiseWork returns the function that returns the workspace of op in bytes.
func elementwiseWork(op *kernels.Op) func(d *Device, attrs any, in, out []kernels.Spec) int64 {
	return func(d *Device, attrs any, in, out []kernels.Spec) int64 {
		r, err := newChainPlan(op, attrs, in, out[0], false)
		if err != nil {
			return 0
		}
		return r.bytes(d.pool.threads())
	}
}

// newChainPlan lays out an op or a chain: which operands need a tile, and which tiles the steps
// share.
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
	// A tile of the workspace holds the longest run that is computed at once.
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

// newOperand returns the layout of an operand.
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

// sizeTiles chooses the length of tiles. Where an operand has long runs and a long period, tiles
// end with the runs. Otherwise a tile is a multiple of the longest period, so that all tiles read
// the same elements of the operand.
func (r *chainPlan) sizeTiles() {
	const long = 256 // least elements of a run that is worth a tile of its own
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

// grain returns the elements of a piece: whole tiles, and all pieces of about the same size.
func (r *chainPlan) grain() int {
	each := ceilDiv(r.n, ceilDiv(r.n, r.minPiece))
	return ceilDiv(each, r.tileStep) * r.tileStep
}

// assignTiles gives every step except the last a tile. A tile is free again after the last step
// that reads it. Constants keep their tiles, which are written once. It returns an error for a step
// that reads the result of a later one.
func (r *chainPlan) assignTiles(inputs int) error {
	// last[k] is the last step that reads operand k.
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
		stages = stages[:len(stages)-1] // the last one writes the output
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
		// Tiles whose last reader is this step are free for the next ones.
		for k := inputs; k < inputs+i; k++ {
			if last[k] == i && r.operations[k-inputs].op != kernels.Fill {
				free = append(free, r.operations[k-inputs].tile)
			}
		}
	}
	return nil
}
