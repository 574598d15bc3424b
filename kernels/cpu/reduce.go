package cpu

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// Reductions (sum, mean, max) of a tensor over some of its axes. They are computed in float64 and
// rounded once. Their order depends on the operand's shape only, so the bits depend neither on the
// number of threads nor on the instruction set:
//
//   - Contiguous elements of one result are a run. A run is cut into tiles of reduce.TileLen: see
//     package reduce.
//   - A run longer than pieceLen is cut into pieces of that length, whose results are combined in
//     order.
//   - Several runs of one result, such as those of a channel's images, form pieces: see pieceSize.
//   - Where the last dimension is kept, rows are combined in order. More than pieceRows contiguous
//     rows are cut into pieces of that many.
//
// So a reduction has the same bits whether its operand is in memory or computed tile by tile while
// it is reduced. A task is a block of results and one piece of their elements. Inner kernels are
// those of internal/asm/reduce.

// Sizes of pieces and blocks.
const (
	pieceLen      = 16 * 1024 // elements of a piece of a long run
	pieceRows     = 1024      // rows of a piece of a tall matrix
	readLen       = 32 * 1024 // most elements of a call of a kernel: some microseconds
	blockResults  = 128       // most results of a block: reduced rows, or columns
	lineLen       = 512       // least contiguous elements that a block should read
	pulledColumns = 512       // most results of a block where the operand is computed
)

// A reduction is the layout of the operand, split into dimensions that are kept and dimensions that
// are reduced.
type reduction struct {
	keptDims, reducedDims stridedIndex // without inner and nearRows
	rows                  bool         // the last dimension is reduced: an output reduces runs
	inner                 int          // elements of the last dimension, a run or a row
	// Rows: results whose runs are contiguous. Otherwise: contiguous rows that are reduced.
	nearRows  int
	outputs   int
	count     int // elements that one output reduces
	pieces    int // pieces of a run, of runs or of a column; 1: not cut
	pieceSize int // of a piece: elements of a run, runs, or rows
}

// newReduction merges the dimensions of s and decides what is cut.
func newReduction(a kernels.ReduceAttrs, s kernels.Shape) reduction {
	r := reduction{inner: 1, nearRows: 1, pieces: 1, rows: true}
	r.keptDims, r.reducedDims = splitDims(a, s)
	r.outputs, r.count = r.keptDims.elems(), r.reducedDims.elems()
	// inner is the last dimension, which is contiguous; near is the one before it.
	inner, near := &r.reducedDims, &r.keptDims
	if w := &r.keptDims; w.rank > 0 && w.stride[w.rank-1] == 1 {
		r.rows, inner, near = false, near, inner
	}
	// Kept and reduced dimensions alternate after merging.
	r.inner, r.nearRows = inner.popDim(), near.popDim()
	length := 0 // of the dimension that is cut
	switch {
	case r.rows && r.reducedDims.rank == 0:
		length, r.pieceSize = r.inner, pieceLen
	case r.rows && r.reducedDims.rank == 1 && r.keptDims.rank == 0:
		length, r.pieceSize = r.reducedDims.dims[0], max(ceilDiv(pieceRows, max(r.inner, 1)), ceilDiv(2*pieceLen, max(r.nearRows*r.inner, 1)))
	case r.reducedDims.rank == 0:
		length, r.pieceSize = r.nearRows, pieceRows
	}
	if length > r.pieceSize {
		r.pieces = ceilDiv(length, r.pieceSize)
	}
	return r
}

// splitDims returns the dimensions of s that are kept, and those that are reduced. Neighbours merge:
// [2, 3, 4] over axes (1, 2) has kept (2) and reduced (12).
func splitDims(a kernels.ReduceAttrs, s kernels.Shape) (kept, reduced stridedIndex) {
	strides := rowMajor(s)
	for k, d := range s {
		if len(a.Axes) == 0 || slices.Contains(a.Axes, k) {
			reduced.addDim(d, strides[k])
		} else {
			kept.addDim(d, strides[k])
		}
	}
	return kept, reduced
}

// popDim removes the last dimension and returns it, 1 where there is none.
func (w *stridedIndex) popDim() int {
	if w.rank == 0 {
		return 1
	}
	w.rank--
	return w.dims[w.rank]
}

// reduceWork returns the bytes that the results of pieces need in the worst reduction up to this
// size. With other dimensions of 1, neighbours merge and are cut differently.
func reduceWork(_ *Device, attrs any, in, _ []kernels.Spec) int64 {
	kept, reduced := splitDims(attrs.(kernels.ReduceAttrs), in[0].Shape)
	count := reduced.elems()
	if count <= pieceRows {
		return 0
	}
	return int64(kept.elems()) * int64(ceilDiv(count, pieceRows)) * 8
}

// A pull returns elements lo..lo+n-1 of a tensor, row-major. It may compute them in memory of the
// worker. n is at most maxPull; worker is below the number of threads of the pool.
type pull[T float] func(lo, n, worker int) []T

// A reducer is a reduction bound to memory. Its operand is x, or computed by pull.
type reducer[T float] struct {
	reduction
	kernels  *reduce.Kernels[T]
	fold     reduce.Fold
	scale    float64 // results are divided by it
	x        []T
	pull     pull[T]
	y        []T
	acc      [][]float64 // of each worker
	partials []float64   // results of pieces: [pieces, outputs]
	width    int         // most outputs of a block
	maxRead  int         // most elements that are read at once
}

// bindReduce prepares a sum, mean or maximum of input 0.
func bindReduce(b *binding) (func(), error) {
	s := b.In[0].Shape
	switch b.In[0].Type {
	case arena.Float32:
		return reduceFrom(b, b.Op, b.Attrs.(kernels.ReduceAttrs), s, out[float32](b, 0), b.work(), in[float32](b, 0), nil), nil
	case arena.Float64:
		return reduceFrom(b, b.Op, b.Attrs.(kernels.ReduceAttrs), s, out[float64](b, 0), b.work(), in[float64](b, 0), nil), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// reduceFrom returns a launch of op (Sum, Mean or Max) on a tensor of shape s: x, or computed by
// pull where x is nil. work has at least reduceWork bytes. It returns nil where there is no output.
func reduceFrom[T float](b *binding, op *kernels.Op, a kernels.ReduceAttrs, s kernels.Shape, y []T, work []byte, x []T, pull pull[T]) func() {
	r := &reducer[T]{reduction: newReduction(a, s), kernels: reduce.At[T](b.dev.level), scale: 1, x: x, pull: pull, y: y}
	if op == kernels.Max {
		r.fold = reduce.FoldMax
	}
	if op == kernels.Mean {
		r.scale = float64(r.count)
	}
	if r.outputs == 0 {
		return nil
	}
	if r.count == 0 {
		var v [1]float64
		r.fold.Start(v[:])
		return func() { asm.Fill(y, T(v[0]/r.scale)) }
	}
	r.width, r.maxRead = blockResults, readLen
	if pull != nil {
		r.width, r.maxRead = pulledColumns, maxPull
	}
	if r.pieces > 1 {
		r.partials = asm.View[float64](work)[:r.pieces*r.outputs]
	}
	return r.launch(b)
}

// launch splits the work into blocks of contiguous outputs and pieces of their elements.
func (r *reducer[T]) launch(b *binding) func() {
	// A group is the outputs whose elements are contiguous in blocks: columns of a row, or rows of
	// runs.
	group, f, size := r.inner, r.columns, min(r.count, pieceRows)
	if r.rows {
		group, f, size = r.nearRows, r.runs, min(r.count, pieceLen)
		if r.reducedDims.rank == 0 || r.pieces == 1 {
			r.width = min(r.width, max(1, pieceLen/r.count, ceilDiv(lineLen, r.inner)))
		}
	}
	// Workers accumulate a block of outputs, then store it.
	r.width = min(r.width, group)
	for range b.dev.pool.threads() {
		r.acc = append(r.acc, make([]float64, r.width))
	}
	per := ceilDiv(group, r.width)
	all := b.parallelFor(r.outputs/group*per*r.pieces, pieceLen/(size*r.width), func(lo, hi, worker int) {
		for i := lo; i < hi; i++ {
			// Part i is piece cut of block; from is the block's first output inside its group.
			block, cut := i/r.pieces, i%r.pieces
			from := block % per * r.width
			acc := r.acc[worker][:min(r.width, group-from)]
			r.fold.Start(acc)
			f(acc, r.keptDims.offset(block/per), from, cut, worker)
			r.store(acc, block/per*group+from, cut)
		}
	})
	if r.pieces == 1 {
		return all
	}
	return func() {
		all()
		// Results of pieces are combined in order.
		for o := range r.y {
			total := r.partials[o]
			for c := 1; c < r.pieces; c++ {
				total = r.fold.Join(total, r.partials[c*r.outputs+o])
			}
			r.y[o] = T(total / r.scale)
		}
	}
}

// store writes the results of a block to y, or to the partial results of piece cut.
func (r *reducer[T]) store(acc []float64, o, cut int) {
	if r.pieces > 1 {
		copy(r.partials[cut*r.outputs+o:], acc)
		return
	}
	y := r.y[o:][:len(acc)]
	if r.scale == 1 {
		for j, v := range acc {
			y[j] = T(v)
		}
		return
	}
	for j, v := range acc {
		y[j] = T(v / r.scale)
	}
}

// elements returns n elements from lo on.
func (r *reducer[T]) elements(lo, n, worker int) []T {
	if r.pull != nil {
		return r.pull(lo, n, worker)
	}
	return r.x[lo : lo+n]
}

// runs folds the runs of len(acc) outputs, or their piece cut.
func (r *reducer[T]) runs(acc []float64, base, from, cut, worker int) {
	f, n := r.kernels.Rows[r.fold], r.inner
	first, end := 0, r.reducedDims.elems()
	// base is the element where the first run begins.
	base += from * n
	switch {
	// A piece of one long run.
	case r.pieces > 1 && r.reducedDims.rank == 0:
		base += cut * r.pieceSize
		n = min(r.pieceSize, n-cut*r.pieceSize)
	// Or some of several runs.
	case r.pieces > 1:
		first, end = cut*r.pieceSize, min((cut+1)*r.pieceSize, end)
	}
	for k := first; k < end; k++ {
		at := base + r.reducedDims.offset(k)
		// Short runs: several in one call. Long runs: one at a time, in several calls.
		if n <= r.maxRead {
			for i, per := 0, r.maxRead/n; i < len(acc); i += per {
				rows := acc[i:min(i+per, len(acc))]
				f(rows, r.elements(at+i*n, len(rows)*n, worker), n)
			}
			continue
		}
		for i := range acc {
			for lo := 0; lo < n; lo += r.maxRead {
				m := min(r.maxRead, n-lo)
				f(acc[i:i+1], r.elements(at+i*n+lo, m, worker), m)
			}
		}
	}
}

// columns folds len(acc) columns from column from on, or their piece cut.
func (r *reducer[T]) columns(acc []float64, base, from, cut, worker int) {
	f, n := r.kernels.Cols[r.fold], len(acc)
	first, end := 0, r.nearRows
	if r.pieces > 1 {
		first, end = cut*r.pieceSize, min((cut+1)*r.pieceSize, r.nearRows)
	}
	// Rows of a call: as many as maxRead allows.
	per := max(1, r.maxRead/n)
	// A pull returns contiguous elements: part of a row at a time.
	if r.pull != nil && n < r.inner {
		per = 1
	}
	for k := range r.reducedDims.elems() {
		at := base + from + r.reducedDims.offset(k)
		for i := first; i < end; i += per {
			rows := min(per, end-i)
			f(acc, r.elements(at+i*r.inner, (rows-1)*r.inner+n, worker), rows, r.inner)
		}
	}
}

// offset returns the element of the operand for element i of the output.
func (w *stridedIndex) offset(i int) int {
	switch w.rank {
	case 0:
		return 0
	case 1:
		return i * w.stride[0]
	}
	at := 0
	// The digits of i in the mixed radix of dims, times the strides.
	for k := w.rank - 1; k >= 0; k-- {
		at += i % w.dims[k] * w.stride[k]
		i /= w.dims[k]
	}
	return at
}
