package norm_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
)

// Rows that end or begin at a page that faults are normalized as by the twin. Assembly adds in
// float32 about a pivot, so results of size 1 differ by some units in the last place.
func TestRowsMatchTheirTwinsInsideTheirOperands(t *testing.T) {
	r, seed := asmtest.Rand(t)
	var pages [7]asmtest.Page
	for i := range pages {
		pages[i] = asmtest.NewPage(t)
	}
	const rows, bound = 2, 2e-5
	for _, level := range asmtest.Levels() {
		for n := 2; n <= 200; n++ {
			at := func(i, n int) []float32 { return asmtest.Elements[float32](pages[i], n, n%2 == 0) }
			a := norm.RowArgs[float32]{X: at(0, rows*n), Dy: at(1, rows*n), Y: at(2, rows*n), Gamma: at(3, n), Beta: at(4, n), Mean: at(5, rows),
				Rstd: at(6, rows), Dgamma: make([]float32, n), Dbeta: make([]float32, n), N: n, Rows: rows, Eps: 0.1, Share: 1 / float32(n)}
			for _, x := range [][]float32{a.X, a.Dy, a.Gamma, a.Beta} {
				for i := range x {
					x[i] = r.Float32()
				}
			}
			b := a
			b.Y, b.Mean, b.Rstd = make([]float32, rows*n), make([]float32, rows), make([]float32, rows)
			b.Dgamma, b.Dbeta = make([]float32, n), make([]float32, n)
			check := func(what string, got, want []float32) {
				t.Helper()
				for i := range got {
					if !(math.Abs(float64(got[i]-want[i])) <= bound) {
						t.Fatalf("%s of rows of %d at level %d: element %d is %g, want %g (seed %d)", what, n, level, i, got[i], want[i], seed)
					}
				}
			}
			k, twin := norm.RowsAt[float32](level, n), norm.RowsAt[float32](asm.Portable, n)
			k.Forward(&a)
			twin.Forward(&b)
			check("mean", a.Mean, b.Mean)
			check("rstd", a.Rstd, b.Rstd)
			check("y", a.Y, b.Y)
			k.Gradient(&a)
			twin.Gradient(&b)
			check("dx", a.Y, b.Y)
			check("dgamma", a.Dgamma, b.Dgamma)
			check("dbeta", a.Dbeta, b.Dbeta)
		}
	}
}
