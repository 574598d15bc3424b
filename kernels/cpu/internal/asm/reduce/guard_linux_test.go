package reduce_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

func TestFoldsMatchTheirTwinsInsideTheirOperands(t *testing.T) {
	testFolds[float32](t)
	testFolds[float64](t)
}

// testFolds runs each fold on operands that end or begin at a page that faults.
func testFolds[T asm.Float](t *testing.T) {
	r, seed := asmtest.Rand(t)
	page, twin := asmtest.NewPage(t), reduce.At[T](asm.Portable)
	for _, level := range asmtest.Levels() {
		k := reduce.At[T](level)
		for n := 1; n <= 512; n += 1 + n/70 {
			for _, atEnd := range []bool{false, true} {
				x := asmtest.Elements[T](page, n, atEnd)
				for i := range x {
					x[i] = T(float32(r.NormFloat64()))
				}
				for _, f := range []reduce.Fold{reduce.FoldSum, reduce.FoldMax, reduce.FoldSquares} {
					got, want := []float64{1}, []float64{1}
					k.Rows[f](got, x, n)
					twin.Rows[f](want, x, n)
					if got[0] != want[0] && !(f == reduce.FoldSquares && math.Abs(got[0]-want[0]) < 1e-12*want[0]) {
						t.Errorf("fold %d of a row of %d at level %d: %g, want %g (seed %d)", f, n, level, got[0], want[0], seed)
					}
				}
				rows := 1 + r.IntN(3)
				if cols := n / rows; cols > 0 {
					got, want := make([]float64, cols), make([]float64, cols)
					k.Cols[reduce.FoldSum](got, x[len(x)-rows*cols:], rows, cols)
					twin.Cols[reduce.FoldSum](want, x[len(x)-rows*cols:], rows, cols)
					for j := range got {
						if got[j] != want[j] {
							t.Fatalf("column %d of %dx%d at level %d: %g, want %g (seed %d)", j, rows, cols, level, got[j], want[j], seed)
						}
					}
				}
			}
		}
	}
}

func TestLargestMatchesItsTwin(t *testing.T) {
	r, seed := asmtest.Rand(t)
	page, twin := asmtest.NewPage(t), reduce.LargestAt(asm.Portable)
	for _, level := range asmtest.Levels() {
		for n := range 200 {
			x := asmtest.Elements[uint32](page, n, n%2 == 0)
			for i := range x {
				x[i] = r.Uint32()
			}
			mask := r.Uint64() &^ (1<<63 | 1<<31)
			if got, want := reduce.LargestAt(level)(x, mask), twin(x, mask); got != want {
				t.Fatalf("largest of %d under %#x at level %d: %#x, want %#x (seed %d)", n, mask, level, got, want, seed)
			}
		}
	}
}
