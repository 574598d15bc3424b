package gemm_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

func TestTilesStayInsideTheirOperands(t *testing.T) {
	testTiles[float32](t, arena.Float32, 1e-6)
	testTiles[float64](t, arena.Float64, 1e-14)
}

// testTiles computes tiles of every size from operands that end or begin at a page that faults.
func testTiles[T asm.Float](t *testing.T, typ arena.DType, bound float64) {
	r, seed := asmtest.Rand(t)
	pageA, pageB, pageC := asmtest.NewPage(t), asmtest.NewPage(t), asmtest.NewPage(t)
	const steps = 3
	for _, level := range asmtest.Levels() {
		k := gemm.For(level, typ)
		for rows := 1; rows <= k.Rows; rows++ {
			for n := 1; n <= k.Cols; n++ {
				run, cols := k.Tiles[rows], k.Cols
				if k.HalfTiles != nil && 2*n <= cols {
					run = k.HalfTiles[rows]
				}
				atEnd := n%2 == 0
				a, b, c := asmtest.Elements[T](pageA, rows*steps, atEnd), asmtest.Elements[T](pageB, steps*cols, atEnd), asmtest.Elements[T](pageC, rows*n, atEnd)
				for _, x := range [][]T{a, b} {
					for i := range x {
						x[i] = T(r.Float64())
					}
				}
				size := k.Size()
				run(&gemm.Tile{A: asm.Bytes(a), B: asm.Bytes(b), C: asm.Bytes(c), K: steps, RowA: steps * size, StepA: size, StepB: cols * size,
					RowC: n * size, N: n, Rows: rows})
				for i := range c {
					want := 0.0
					for j := range steps {
						want += float64(a[i/n*steps+j]) * float64(b[j*cols+i%n])
					}
					if math.Abs(float64(c[i])-want) > bound {
						t.Fatalf("element %d of %dx%d by %s: %g, want %g (seed %d)", i, rows, n, k.Name, c[i], want, seed)
					}
				}
			}
		}
	}
}
