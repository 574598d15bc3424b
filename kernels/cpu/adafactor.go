package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Adafactor reads the gradient three times: for the means of its squares, for the size of the step, and for the step. Rows are taken in
// blocks, whose sums are added in their order. Elements are computed in float64 and rounded once.
// Workspace, float64: [matrices][blocks][columns] sums over rows, the first block's of which become 1/√C; [matrices] means of R;
// [matrices·blocks] sums of squares, of the parameter and then of the step.

// A factoring is Adafactor bound to memory.
type factoring[T float] struct {
	kernels.AdafactorAttrs
	p, g          []T
	rows, columns []T // the states R [matrices, n] and C [matrices, width]
	guard         []int32
	controls, by  []float64 // by: nil where gradients are not scaled

	matrices, n, width int // matrices of n rows and width columns
	blocks, per        int // blocks of a matrix, and rows of a block
	sums, means        []float64
	squares            []float64

	numbers    factorNumbers
	mostSquare float64
	size, step float64 // what the rate is a share of; what an element of the step is multiplied with

	passes     *factorPasses[T]
	addSquares func(acc []float64, x []T, n int)
}

// factorNumbers are what all passes share. The assembly knows the fields' offsets.
type factorNumbers struct {
	scale, most, least float64 // a gradient is scaled, then clipped to least..most
	epsilon            float64
	decay              float64 // times the rate
}

// factorPasses holds the passes over elements of a row of a level for one type. Assembly takes multiples of factorRun elements.
type factorPasses[T float] struct {
	squares func(sums []float64, g []T, by *factorNumbers) float64             // adds g² + epsilon to sums, and returns the sum of all
	measure func(columns []float64, g []T, by *factorNumbers) float64          // returns the sum of (g·columns)²
	apply   func(p, g []T, columns []float64, by *factorNumbers, step float64) // p -= step·(g·columns) + decay·p
}

const factorRun = 16 // elements

// factorPassesAt returns the passes of a level.
func factorPassesAt[T float](l level) *factorPasses[T] {
	var t T
	if _, single := any(t).(float32); single {
		return any(factorPasses32(l)).(*factorPasses[T])
	}
	return goFactorPasses[T]()
}

// goFactorPasses holds the passes in Go.
func goFactorPasses[T float]() *factorPasses[T] {
	return &factorPasses[T]{goFactorSquares[T], goFactorMeasure[T], goFactorApply[T]}
}

func bindAdafactor(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindAdafactorOf[float32](b), nil
	case arena.Float64:
		return bindAdafactorOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func adafactorWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	matrices, n, width := numeric.Matrices(in[0].Shape)
	return 8 * int64(matrices) * (int64(blocksOf(n))*int64(width+1) + 1)
}

func bindAdafactorOf[T float](b *binding) func() {
	f := &factoring[T]{AdafactorAttrs: b.Attrs.(kernels.AdafactorAttrs), p: in[T](b, 0), g: in[T](b, 1),
		rows: out[T](b, 1), columns: out[T](b, 2), guard: in[int32](b, 2), controls: in[float64](b, 3), size: 1}
	if len(f.p) == 0 {
		return nil
	}
	if f.Scaled {
		f.by = in[float64](b, 4)
	}
	most := math.Inf(1)
	if f.ClipValue > 0 {
		most = f.ClipValue
	}
	f.numbers = factorNumbers{scale: 1, most: most, least: -most, epsilon: f.Epsilon}
	f.passes, f.addSquares = factorPassesAt[T](b.dev.level), folderAt[T](b.dev.level).rows[foldSquares]
	f.mostSquare = numeric.MostSquare(b.In[0].Type)
	f.matrices, f.n, f.width = numeric.Matrices(b.In[0].Shape)
	f.per = over(f.n, blocksOf(f.n))
	f.blocks = over(f.n, f.per)
	work, blocks := view[float64](b.work()), f.matrices*f.blocks
	f.sums, work = work[:blocks*f.width], work[blocks*f.width:]
	f.means, f.squares = work[:f.matrices], work[f.matrices:][:blocks]

	grain := over(updateGrain, f.per*f.width)
	moments, measure := b.over(blocks, grain, f.moments), b.over(blocks, grain, f.measure)
	fold := b.over(f.matrices, over(updateGrain, f.blocks*f.width+f.n), f.fold)
	apply := b.over(blocks, grain, f.apply)
	return func() {
		if f.guard[0] != 0 {
			return
		}
		if f.by != nil {
			f.numbers.scale = f.by[0]
		}
		f.numbers.decay = f.controls[0] * f.Decay
		moments()
		if f.Relative {
			f.size = max(f.Least, f.root())
		}
		fold()
		measure()
		f.step = f.controls[0] * f.size / max(1, f.root()/f.Limit)
		apply()
	}
}

// root is the root of the mean of what squares are the sums of.
func (f *factoring[T]) root() float64 {
	total := 0.0
	for _, s := range f.squares {
		total += s
	}
	return math.Sqrt(total / float64(len(f.p)))
}

// block returns the matrix of block k and its rows, counted over all matrices.
func (f *factoring[T]) block(k int) (matrix, from, to int) {
	matrix = k / f.blocks
	first := k % f.blocks * f.per
	return matrix, matrix*f.n + first, matrix*f.n + min(first+f.per, f.n)
}

// prepared returns an element of the gradient scaled and clipped.
func prepared[T float](g T, by *factorNumbers) float64 {
	v := float64(g) * by.scale
	if v > by.most {
		return by.most
	}
	if v < by.least {
		return by.least
	}
	return v
}

func goFactorSquares[T float](sums []float64, g []T, by *factorNumbers) float64 {
	total := 0.0
	for j, x := range g {
		v := prepared(x, by)
		v = v*v + by.epsilon
		total += v
		sums[j] += v
	}
	return total
}

func goFactorMeasure[T float](columns []float64, g []T, by *factorNumbers) float64 {
	total := 0.0
	for j, x := range g {
		u := prepared(x, by) * columns[j]
		total += u * u
	}
	return total
}

func goFactorApply[T float](p, g []T, columns []float64, by *factorNumbers, step float64) {
	for j, x := range g {
		v := float64(p[j])
		p[j] = T(v - step*(prepared(x, by)*columns[j]) - by.decay*v)
	}
}

// moments moves the means of the rows, and adds up the columns of each block, and the squares of the parameter where they are asked for.
func (f *factoring[T]) moments(lo, hi, _ int) {
	fresh, w := f.controls[2], f.width
	run := w - w%factorRun
	for k := lo; k < hi; k++ {
		_, from, to := f.block(k)
		sums := f.sums[k*w:][:w]
		clear(sums)
		for i := from; i < to; i++ {
			g := f.g[i*w:][:w]
			total := f.passes.squares(sums[:run], g[:run], &f.numbers) + goFactorSquares(sums[run:], g[run:], &f.numbers)
			f.rows[i] = T(min((1-fresh)*float64(f.rows[i])+fresh*total/float64(w), f.mostSquare))
		}
		if f.Relative {
			f.squares[k] = 0
			f.addSquares(f.squares[k:k+1], f.p[from*w:to*w], (to-from)*w)
		}
	}
}

// fold moves the means of the columns, and leaves what a step is multiplied with for each.
func (f *factoring[T]) fold(lo, hi, _ int) {
	fresh, w := f.controls[2], f.width
	for m := lo; m < hi; m++ {
		sums := f.sums[m*f.blocks*w:][:f.blocks*w]
		first, columns := sums[:w], f.columns[m*w:][:w]
		for rest := sums[w:]; len(rest) > 0; rest = rest[w:] {
			for j, v := range rest[:w] {
				first[j] += v
			}
		}
		for j, v := range first {
			columns[j] = T(min((1-fresh)*float64(columns[j])+fresh*v/float64(f.n), f.mostSquare))
			first[j] = 1 / math.Sqrt(float64(columns[j]))
		}
		total := 0.0
		for _, v := range f.rows[m*f.n:][:f.n] {
			total += float64(v)
		}
		f.means[m] = total / float64(f.n)
	}
}

// measure adds up the squares of each block's steps.
func (f *factoring[T]) measure(lo, hi, _ int) {
	w := f.width
	run := w - w%factorRun
	for k := lo; k < hi; k++ {
		m, from, to := f.block(k)
		byColumn, all := f.sums[m*f.blocks*w:][:w], 0.0
		for i := from; i < to; i++ {
			g := f.g[i*w:][:w]
			total := f.passes.measure(byColumn[:run], g[:run], &f.numbers) + goFactorMeasure(byColumn[run:], g[run:], &f.numbers)
			all += total * (f.means[m] / float64(f.rows[i]))
		}
		f.squares[k] = all
	}
}

// apply takes the step.
func (f *factoring[T]) apply(lo, hi, _ int) {
	w := f.width
	run := w - w%factorRun
	for k := lo; k < hi; k++ {
		m, from, to := f.block(k)
		byColumn := f.sums[m*f.blocks*w:][:w]
		for i := from; i < to; i++ {
			step, p, g := f.step*math.Sqrt(f.means[m]/float64(f.rows[i])), f.p[i*w:][:w], f.g[i*w:][:w]
			f.passes.apply(p[:run], g[:run], byColumn[:run], &f.numbers, step)
			goFactorApply(p[run:], g[run:], byColumn[run:], &f.numbers, step)
		}
	}
}
