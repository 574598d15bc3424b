// Package reduce holds the inner kernels of reductions: sums, maxima and sums of squares of float32
// and float64, accumulated in float64.
//
// Rows are reduced in tiles of TileLen elements. Element i of a tile is added to partial sum i%32,
// the 32 are added as a tree, and tiles follow one another. The order depends on the length alone,
// so every level gives the same bits, except that assembly treats denormal float32 as zero and
// fuses the multiplication in sums of squares of float64.
//
// zz_reduce_amd64.s (AVX2 and AVX-512) is written by internal/gen/reduce; portable.go holds the Go
// twins. sum.go adds in the element's own type, for Go kernels only.
package reduce

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// A Fold is an operation that reduces values to one.
type Fold uint8

// The folds.
const (
	FoldSum     Fold = iota // Σx
	FoldMax                 // max x, NaN where any x is NaN
	FoldSquares             // Σx²
	folds
)

// Kernels are the functions of a level for one element type, by fold. They combine with the values
// that acc holds.
type Kernels[T asm.Float] struct {
	// Rows folds len(acc) rows of n elements, contiguous in x, each into its element of acc.
	Rows [folds]func(acc []float64, x []T, n int)
	// Cols folds rows of len(acc) elements, stride elements apart, into acc. Nil for FoldSquares.
	Cols [folds]func(acc []float64, x []T, rows, stride int)
}

// At returns the kernels of level l.
func At[T asm.Float](l asm.Level) *Kernels[T] {
	var t T
	if _, single := any(t).(float32); single {
		return any(kernels32(l)).(*Kernels[T])
	}
	return any(kernels64(l)).(*Kernels[T])
}

// Start fills acc with the fold's neutral element: 0, or -Inf for FoldMax.
func (f Fold) Start(acc []float64) {
	if f == FoldMax {
		asm.Fill(acc, math.Inf(-1))
		return
	}
	clear(acc)
}

// Join combines two results.
func (f Fold) Join(a, b float64) float64 {
	if f != FoldMax {
		return a + b
	}
	if b > a || b != b {
		return b
	}
	return a
}
