package transpose_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/transpose"
)

func TestSquaresMatchTheirTwinInsideTheirOperands(t *testing.T) {
	testSquares[uint32](t)
	testSquares[uint64](t)
}

// testSquares transposes matrices that end or begin at a page that faults.
func testSquares[T asm.Word](t *testing.T) {
	from, to := asmtest.NewPage(t), asmtest.NewPage(t)
	for _, level := range asmtest.Levels() {
		f, side := transpose.At[T](level)
		if f == nil {
			continue
		}
		for rows := side; rows <= 2*side; rows += side {
			for cols := side; cols <= 3*side; cols += side {
				for gap := range 4 {
					step, stride := rows+gap, cols+gap
					src := asmtest.Elements[T](from, (cols-1)*step+rows, gap%2 == 0)
					dst := asmtest.Elements[T](to, (rows-1)*stride+cols, gap%2 == 0)
					for i := range src {
						src[i] = T(i + 1)
					}
					clear(dst)
					want := make([]T, len(dst))
					transpose.Portable(want, src, rows, cols, stride, step)
					if f(dst, src, rows, cols, stride, step); !slices.Equal(dst, want) {
						t.Errorf("%dx%d of %T, gap %d: got %v, want %v", rows, cols, want[0], gap, dst, want)
					}
				}
			}
		}
	}
}
