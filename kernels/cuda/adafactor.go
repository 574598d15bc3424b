package cuda

import (
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

const (
	cutRows    = 64 // rows of a cut whose columns are added up, at least
	mostCuts   = 32 // of a matrix
	shortWidth = 32 // a row of at most this many elements has one thread, a longer one a block
)

// factoring divides a parameter into matrices, and their rows into cuts.
type factoring struct{ matrices, n, width, cuts, per int }

func factoringOf(param kernels.Shape) factoring {
	var f factoring
	f.matrices, f.n, f.width = numeric.Matrices(param)
	f.cuts = min(mostCuts, (f.n+cutRows-1)/cutRows)
	f.per = (f.n + f.cuts - 1) / max(f.cuts, 1)
	return f
}

// count is the number of rows of all matrices.
func (f factoring) count() int { return f.matrices * f.n }

// places are where the parts of the workspace begin, in float64: sums, means, squares, step, and
// the end.
func (f factoring) places() [5]int {
	means := f.matrices * f.cuts * f.width
	squares := means + f.matrices
	step := squares + 2*f.count()
	return [5]int{0, means, squares, step, step + 1}
}

func adafactorWork(_ *properties, _ any, in, _ []kernels.Spec) int64 {
	return 8 * int64(factoringOf(in[0].Shape).places()[4])
}

func bindAdafactor(b *binding) error {
	if b.In[0].Shape.Elems() == 0 {
		return nil
	}
	a, f, t := b.Attrs.(kernels.AdafactorAttrs), factoringOf(b.In[0].Shape), "_"+suffix(b.In[0].Type)
	var place [4]address
	for i := range place {
		place[i] = b.work() + 8*address(f.places()[i])
	}
	sums, means, squares, step := place[0], place[1], place[2], place[3]
	param, grad, rows, columns, guard, controls := b.out(0), b.in(1), b.out(1), b.out(2), b.in(2), b.in(3)
	var scale address
	if a.Scaled {
		scale = b.in(4)
	}
	relative := int32(0)
	if a.Relative {
		relative = 1
	}
	matrices, n, width, cuts, count := int64(f.matrices), int64(f.n), int64(f.width), int64(f.cuts), int64(f.count())
	team, grid, block := "_row", line(rowBlocks(f.count())), line(rowThreads(f.width))
	if f.width <= shortWidth {
		team, grid, block = "_line", strided(b.props, count, blockThreads), line(blockThreads)
	}
	b.launch("adafactor", "rows"+team+t, grid, block, 0, param, grad, rows, squares, count, width, guard, controls,
		scale, a.ClipValue, a.Epsilon, relative)
	b.launch("adafactor", "columns"+t, line(rowBlocks(f.matrices*f.cuts*((f.width+31)/32))), line(blockThreads), 0,
		grad, sums, matrices, n, width, cuts, int64(f.per), guard, scale, a.ClipValue, a.Epsilon)
	b.launch("adafactor", "fold"+t, line(rowBlocks(f.matrices)), line(blockThreads), 0, rows, columns, sums, means,
		matrices, n, width, cuts, guard, controls)
	b.launch("adafactor", "measure"+team+t, grid, block, 0,
		grad, rows, sums, means, squares+8*address(count), count, n, width, cuts, guard, scale, a.ClipValue)
	b.launch("adafactor", "scaleStep", line(1), line(blockThreads), 0,
		squares, step, count, float64(b.In[0].Shape.Elems()), guard, controls, a.Limit, a.Least, relative)
	b.launch("adafactor", "apply"+team+t, grid, block, 0,
		param, grad, rows, sums, means, step, count, n, width, cuts, guard, controls, scale, a.ClipValue, a.Decay)
	return nil
}
