package cpu

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// Reductions are computed in float64 and rounded once. Their order is a matter of the operand's shape alone:
//
//   - Elements that lie together and go into one result are a run. A run is cut into tiles of tileLen. Element i of a tile
//     goes to partial result i%32; the 32 become one in a tree, and tiles follow one another.
//   - A run longer than pieceLen is cut into pieces of that length, and the results of the pieces follow one another.
//   - Of several runs that go into one result, as those of a channel's images do, some form a piece: see perPiece.
//   - Where the last dimension stays, rows follow one another. More than pieceRows of them that lie together are cut into
//     pieces of so many.
//
// So a reduction is the same bits whether its operand lies in memory or is computed tile by tile while it is reduced.

const (
	pieceLen      = 16 * 1024 // elements of a piece of a long run
	pieceRows     = 1024      // rows of a piece of a tall matrix
	readLen       = 32 * 1024 // elements that a kernel is given at once: some microseconds
	blockResults  = 128       // results of a block: rows that are reduced, or columns
	lineLen       = 512       // elements that a block should have to read together
	pulledColumns = 512       // columns of a block of an operand that is computed
)

// A reduction is where the operand's elements lie, split into dimensions that stay and dimensions that go.
type reduction struct {
	keptDims, reducedDims stridedIndex // without inner and near
	rows                  bool         // the last dimension goes: outputs reduce runs
	inner                 int          // elements of the last dimension, a run or a row
	nearRows              int          // rows: results whose runs follow one another. Otherwise: rows that do, and go
	outputs               int
	count                 int // elements that one output reduces
	pieces                int // pieces of a run, of runs or of a column; 1: not cut
	pieceSize             int // elements of a run, runs, or rows of a piece
}

func newReduction(a kernels.ReduceAttrs, s kernels.Shape) reduction {
	strides := rowMajor(s)
	r := reduction{outputs: 1, count: 1, inner: 1, nearRows: 1, pieces: 1, rows: true}
	for k, d := range s {
		if len(a.Axes) == 0 || slices.Contains(a.Axes, k) {
			r.reducedDims.addDim(d, strides[k])
			r.count *= d
		} else {
			r.keptDims.addDim(d, strides[k])
			r.outputs *= d
		}
	}
	inner, near := &r.reducedDims, &r.keptDims
	if w := &r.keptDims; w.rank > 0 && w.stride[w.rank-1] == 1 {
		r.rows, inner, near = false, near, inner
	}
	r.inner, r.nearRows = inner.popDim(), near.popDim() // neighbours: dimensions alternate
	length := 0                                         // of what is cut
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

// popDim takes the last dimension away and returns it, 1 where there is none.
func (w *stridedIndex) popDim() int {
	if w.rank == 0 {
		return 1
	}
	w.rank--
	return w.dims[w.rank]
}

// reduceWork returns what the worst reduction up to this size needs for the results of pieces: where dimensions are 1
// their neighbours merge, and what is cut there is not cut here.
func reduceWork(_ *Device, attrs any, in, _ []kernels.Spec) int64 {
	s, axes := in[0].Shape, attrs.(kernels.ReduceAttrs).Axes
	outputs, count := 1, 1
	for k, d := range s {
		if len(axes) == 0 || slices.Contains(axes, k) {
			count *= d
		} else {
			outputs *= d
		}
	}
	if count <= pieceRows {
		return 0
	}
	return int64(outputs) * int64(ceilDiv(count, pieceRows)) * 8
}

// A pull returns elements lo..lo+n-1 of a tensor, row-major, which it may compute in a place of the worker's own.
// n is at most pullLen; worker is below the number of the pool's threads.
type pull[T float] func(lo, n, worker int) []T

// A reducer is a reduction bound to memory. Its operand is x, or what pull computes.
type reducer[T float] struct {
	reduction
	kernels  *reduce.Kernels[T]
	fold     reduce.Fold
	scale    float64 // results are divided by it
	x        []T
	pull     pull[T]
	y        []T
	acc      [][]float64 // of each worker
	partials []float64   // results of pieces: [cuts, outputs]
	width    int         // most outputs of a block
	maxRead  int         // most elements that are asked for at once
}

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

// reduceFrom returns a launch of op, Sum, Mean or Max, on a tensor of shape s: x, or where that is nil what pull computes.
// work is as large as reduceWork says. It returns nil where nothing is to be done.
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

// launch splits the work into blocks of outputs that lie together, and pieces of what they reduce.
func (r *reducer[T]) launch(b *binding) func() {
	group, f, size := r.inner, r.columns, min(r.count, pieceRows)
	if r.rows {
		group, f, size = r.nearRows, r.runs, min(r.count, pieceLen)
		if r.reducedDims.rank == 0 || r.pieces == 1 {
			r.width = min(r.width, max(1, pieceLen/r.count, ceilDiv(lineLen, r.inner)))
		}
	}
	r.width = min(r.width, group)
	for range b.dev.pool.threads() {
		r.acc = append(r.acc, make([]float64, r.width))
	}
	per := ceilDiv(group, r.width)
	all := b.parallelFor(r.outputs/group*per*r.pieces, pieceLen/(size*r.width), func(lo, hi, worker int) {
		for i := lo; i < hi; i++ {
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
		for o := range r.y {
			total := r.partials[o]
			for c := 1; c < r.pieces; c++ {
				total = r.fold.Join(total, r.partials[c*r.outputs+o])
			}
			r.y[o] = T(total / r.scale)
		}
	}
}

// store puts the results of a block where they belong.
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

// runs folds the runs of len(acc) outputs, or piece cut of them.
func (r *reducer[T]) runs(acc []float64, base, from, cut, worker int) {
	f, n := r.kernels.Rows[r.fold], r.inner
	first, end := 0, r.reducedDims.elems()
	base += from * n
	switch {
	case r.pieces > 1 && r.reducedDims.rank == 0:
		base += cut * r.pieceSize
		n = min(r.pieceSize, n-cut*r.pieceSize)
	case r.pieces > 1:
		first, end = cut*r.pieceSize, min((cut+1)*r.pieceSize, end)
	}
	for k := first; k < end; k++ {
		at := base + r.reducedDims.offset(k)
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

// columns folds len(acc) columns, from the one on that is given, or piece cut of them.
func (r *reducer[T]) columns(acc []float64, base, from, cut, worker int) {
	f, n := r.kernels.Cols[r.fold], len(acc)
	first, end := 0, r.nearRows
	if r.pieces > 1 {
		first, end = cut*r.pieceSize, min((cut+1)*r.pieceSize, r.nearRows)
	}
	per := max(1, r.maxRead/n)
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

// offset returns where element i of the walked dimensions lies.
func (w *stridedIndex) offset(i int) int {
	switch w.rank {
	case 0:
		return 0
	case 1:
		return i * w.stride[0]
	}
	at := 0
	for k := w.rank - 1; k >= 0; k-- {
		at += i % w.dims[k] * w.stride[k]
		i /= w.dims[k]
	}
	return at
}
