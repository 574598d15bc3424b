package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Adafactor (Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost,
// 2018). It reads the gradient three times: for the means of its squares by row and column, for the
// size of the step, and for the step. Rows are processed in blocks, whose sums are added in order.
// Elements are computed in float64 and rounded once. Threads split blocks. Workspace, float64:
// [matrices][blocks][columns] sums over rows, where the first block's become 1/√C; [matrices] means
// of R; [matrices·blocks] sums of squares, of the parameter and then of the step.

// An adafactor is Adafactor bound to memory.
type adafactor[T float] struct {
	kernels.AdafactorAttrs
	p, g              []T
	rows, columns     []T // the states R [matrices, n] and C [matrices, width]
	guard             []int32
	controls, scaleBy []float64 // scaleBy: nil where gradients are not scaled

	matrices, n, width int // matrices of n rows and width columns
	blocks, blockRows  int // blocks of a matrix, and rows of a block
	sums, means        []float64
	squares            []float64

	numbers     update.FactorScalars
	maxSquare   float64
	scale, step float64 // factor of the relative rate; factor of all elements of the step

	passes     *update.FactorPasses[T]
	tail       *update.FactorPasses[T] // in Go: the last elements of a row
	addSquares func(acc []float64, x []T, n int)
}

// bindAdafactor prepares an update of a parameter of any shape. Its dimensions are folded to
// matrices [n, width]: see kernels.FactorOf.
func bindAdafactor(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindAdafactorOf[float32](b), nil
	case arena.Float64:
		return bindAdafactorOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// adafactorWork returns the workspace in bytes: see above.
func adafactorWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	matrices, n, width := numeric.Matrices(in[0].Shape)
	return 8 * int64(matrices) * (int64(blocksOf(n))*int64(width+1) + 1)
}

// bindAdafactorOf binds the passes over blocks. A launch runs them in order, each over all threads:
// moments, foldColumns, measure, apply.
func bindAdafactorOf[T float](b *binding) func() {
	f := &adafactor[T]{AdafactorAttrs: b.Attrs.(kernels.AdafactorAttrs), p: in[T](b, 0), g: in[T](b, 1),
		rows: out[T](b, 1), columns: out[T](b, 2), guard: in[int32](b, 2), controls: in[float64](b, 3), scale: 1}
	if len(f.p) == 0 {
		return nil
	}
	if f.Scaled {
		f.scaleBy = in[float64](b, 4)
	}
	most := math.Inf(1)
	if f.ClipValue > 0 {
		most = f.ClipValue
	}
	f.numbers = update.FactorScalars{Scale: 1, Max: most, Min: -most, Epsilon: f.Epsilon}
	f.tail = update.FactorPassesAt[T](asm.Portable)
	f.passes, f.addSquares = update.FactorPassesAt[T](b.dev.level), reduce.At[T](b.dev.level).Rows[reduce.FoldSquares]
	f.maxSquare = numeric.MostSquare(b.In[0].Type)
	f.matrices, f.n, f.width = numeric.Matrices(b.In[0].Shape)
	f.blockRows = ceilDiv(f.n, blocksOf(f.n))
	f.blocks = ceilDiv(f.n, f.blockRows)
	work, blocks := asm.View[float64](b.work()), f.matrices*f.blocks
	f.sums, work = work[:blocks*f.width], work[blocks*f.width:]
	f.means, f.squares = work[:f.matrices], work[f.matrices:][:blocks]

	// Passes over blocks use all threads; the fold of columns is split over matrices.
	grain := ceilDiv(updateGrain, f.blockRows*f.width)
	moments, measure := b.parallelFor(blocks, grain, f.moments), b.parallelFor(blocks, grain, f.measure)
	fold := b.parallelFor(f.matrices, ceilDiv(updateGrain, f.blocks*f.width+f.n), f.foldColumns)
	apply := b.parallelFor(blocks, grain, f.apply)
	return func() {
		if f.guard[0] != 0 {
			return
		}
		if f.scaleBy != nil {
			f.numbers.Scale = f.scaleBy[0]
		}
		f.numbers.Decay = f.controls[0] * f.Decay
		moments()
		if f.Relative {
			f.scale = max(f.Least, f.root())
		}
		fold()
		measure()
		f.step = f.controls[0] * f.scale / max(1, f.root()/f.Limit)
		apply()
	}
}

// root returns the root mean square of the elements whose squares f.squares sums.
func (f *adafactor[T]) root() float64 {
	total := 0.0
	for _, s := range f.squares {
		total += s
	}
	return math.Sqrt(total / float64(len(f.p)))
}

// block returns the matrix of block k and its rows, counted over all matrices.
func (f *adafactor[T]) block(k int) (matrix, from, to int) {
	matrix = k / f.blocks
	first := k % f.blocks * f.blockRows
	return matrix, matrix*f.n + first, matrix*f.n + min(first+f.blockRows, f.n)
}

// moments updates the row means of blocks lo..hi-1, adds the columns of each block, and the squares
// of the parameter for a relative rate.
func (f *adafactor[T]) moments(lo, hi, _ int) {
	fresh, w := f.controls[2], f.width
	run := w - w%update.FactorRun
	for k := lo; k < hi; k++ {
		_, from, to := f.block(k)
		sums := f.sums[k*w:][:w]
		clear(sums)
		for i := from; i < to; i++ {
			g := f.g[i*w:][:w]
			total := f.passes.Squares(sums[:run], g[:run], &f.numbers) + f.tail.Squares(sums[run:], g[run:], &f.numbers)
			f.rows[i] = T(min((1-fresh)*float64(f.rows[i])+fresh*total/float64(w), f.maxSquare))
		}
		if f.Relative {
			f.squares[k] = 0
			f.addSquares(f.squares[k:k+1], f.p[from*w:to*w], (to-from)*w)
		}
	}
}

// foldColumns updates the column means of matrices lo..hi-1 and computes each column's factor of
// the step.
func (f *adafactor[T]) foldColumns(lo, hi, _ int) {
	fresh, w := f.controls[2], f.width
	for m := lo; m < hi; m++ {
		sums := f.sums[m*f.blocks*w:][:f.blocks*w]
		first, columns := sums[:w], f.columns[m*w:][:w]
		// Blocks are added in order to the first one.
		for rest := sums[w:]; len(rest) > 0; rest = rest[w:] {
			for j, v := range rest[:w] {
				first[j] += v
			}
		}
		for j, v := range first {
			columns[j] = T(min((1-fresh)*float64(columns[j])+fresh*v/float64(f.n), f.maxSquare))
			first[j] = 1 / math.Sqrt(float64(columns[j]))
		}
		total := 0.0
		for _, v := range f.rows[m*f.n:][:f.n] {
			total += float64(v)
		}
		f.means[m] = total / float64(f.n)
	}
}

// measure adds the squares of the steps of blocks lo..hi-1.
func (f *adafactor[T]) measure(lo, hi, _ int) {
	w := f.width
	run := w - w%update.FactorRun
	for k := lo; k < hi; k++ {
		m, from, to := f.block(k)
		byColumn, all := f.sums[m*f.blocks*w:][:w], 0.0
		for i := from; i < to; i++ {
			g := f.g[i*w:][:w]
			total := f.passes.Measure(byColumn[:run], g[:run], &f.numbers) + f.tail.Measure(byColumn[run:], g[run:], &f.numbers)
			all += total * (f.means[m] / float64(f.rows[i]))
		}
		f.squares[k] = all
	}
}

// apply subtracts the step from the parameters of blocks lo..hi-1.
func (f *adafactor[T]) apply(lo, hi, _ int) {
	w := f.width
	run := w - w%update.FactorRun
	for k := lo; k < hi; k++ {
		m, from, to := f.block(k)
		byColumn := f.sums[m*f.blocks*w:][:w]
		for i := from; i < to; i++ {
			step, p, g := f.step*math.Sqrt(f.means[m]/float64(f.rows[i])), f.p[i*w:][:w], f.g[i*w:][:w]
			f.passes.Apply(p[:run], g[:run], byColumn[:run], &f.numbers, step)
			f.tail.Apply(p[run:], g[run:], byColumn[run:], &f.numbers, step)
		}
	}
}
