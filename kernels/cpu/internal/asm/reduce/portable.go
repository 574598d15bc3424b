package reduce

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// goLargest is the Go twin of the functions that LargestAt returns.
func goLargest(x []uint32, mask uint64) uint32 {
	var a, b, c, d uint32
	even, odd := uint32(mask), uint32(mask>>32)
	for ; len(x) >= 4; x = x[4:] {
		a, b = max(a, x[0]&even), max(b, x[1]&odd)
		c, d = max(c, x[2]&even), max(d, x[3]&odd)
	}
	for i, v := range x {
		a = max(a, v&[2]uint32{even, odd}[i&1])
	}
	return max(a, b, c, d)
}

// goKernels returns the Go twins.
func goKernels[T asm.Float]() *Kernels[T] {
	return &Kernels[T]{
		Rows: [folds]func([]float64, []T, int){goRowsSum[T], goRowsMax[T], goRowsSquares[T]},
		Cols: [folds]func([]float64, []T, int, int){goColsSum[T], goColsMax[T], nil},
	}
}

// TileLen is the elements of a tile of a row. internal/gen/reduce relies on it.
const TileLen = 1024

// Sizes of tiles.
const (
	sums  = 32 // partial sums of a tile
	short = 64 // elements of a tile up to which one pass is faster than four
)

// goTiles calls f with each tile of each of rows rows of n elements.
func goTiles[T asm.Float](rows int, x []T, n int, f func(row int, tile []T)) {
	for i := range rows {
		for row := x[i*n : (i+1)*n]; len(row) > 0; {
			m := min(TileLen, len(row))
			f(i, row[:m])
			row = row[m:]
		}
	}
}

// addTree adds the partial sums in the order of the assembly: vectors of eight, then halves.
func addTree(s *[sums]float64) float64 {
	var v [8]float64
	for l := range v {
		v[l] = (s[l] + s[8+l]) + (s[16+l] + s[24+l])
	}
	return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}

// goRowsSum is Kernels.Rows[FoldSum].
func goRowsSum[T asm.Float](acc []float64, x []T, n int) {
	goTiles(len(acc), x, n, func(row int, tile []T) {
		var s [sums]float64
		if len(tile) <= short {
			for l, v := range tile {
				s[l%sums] += float64(v)
			}
		} else {
			for g := 0; g < sums; g += 8 {
				goLanes((*[8]float64)(s[g:]), tile[g:])
			}
		}
		acc[row] += addTree(&s)
	})
}

// goLanes sets s to the sums of the first eight of each 32 elements, by lane.
func goLanes[T asm.Float](s *[8]float64, x []T) {
	var a, b, c, d, e, f, g, h float64
	for len(x) >= 8 {
		a += float64(x[0])
		b += float64(x[1])
		c += float64(x[2])
		d += float64(x[3])
		e += float64(x[4])
		f += float64(x[5])
		g += float64(x[6])
		h += float64(x[7])
		x = x[min(sums, len(x)):]
	}
	*s = [8]float64{a, b, c, d, e, f, g, h}
	for l, v := range x {
		s[l] += float64(v)
	}
}

// goRowsSquares is Kernels.Rows[FoldSquares].
func goRowsSquares[T asm.Float](acc []float64, x []T, n int) {
	goTiles(len(acc), x, n, func(row int, tile []T) {
		var s [sums]float64
		if len(tile) <= short {
			for l, v := range tile {
				s[l%sums] += float64(v) * float64(v)
			}
		} else {
			for g := 0; g < sums; g += 8 {
				goLaneSquares((*[8]float64)(s[g:]), tile[g:])
			}
		}
		acc[row] += addTree(&s)
	})
}

// goLaneSquares sets s to the sums of squares of the first eight of each 32 elements, by lane.
func goLaneSquares[T asm.Float](s *[8]float64, x []T) {
	var a, b, c, d, e, f, g, h float64
	for len(x) >= 8 {
		a += float64(x[0]) * float64(x[0])
		b += float64(x[1]) * float64(x[1])
		c += float64(x[2]) * float64(x[2])
		d += float64(x[3]) * float64(x[3])
		e += float64(x[4]) * float64(x[4])
		f += float64(x[5]) * float64(x[5])
		g += float64(x[6]) * float64(x[6])
		h += float64(x[7]) * float64(x[7])
		x = x[min(sums, len(x)):]
	}
	*s = [8]float64{a, b, c, d, e, f, g, h}
	for l, v := range x {
		s[l] += float64(v) * float64(v)
	}
}

// goRowsMax is Kernels.Rows[FoldMax].
func goRowsMax[T asm.Float](acc []float64, x []T, n int) {
	goTiles(len(acc), x, n, func(row int, tile []T) { acc[row] = FoldMax.Join(acc[row], float64(Max(tile))) })
}

// goColsSum is Kernels.Cols[FoldSum].
func goColsSum[T asm.Float](acc []float64, x []T, rows, stride int) {
	for i := range rows {
		row := x[i*stride:][:len(acc)]
		for j := range acc {
			acc[j] += float64(row[j])
		}
	}
}

// goColsMax is Kernels.Cols[FoldMax].
func goColsMax[T asm.Float](acc []float64, x []T, rows, stride int) {
	for i := range rows {
		for j, v := range x[i*stride:][:len(acc)] {
			if w := float64(v); w > acc[j] || w != w {
				acc[j] = w
			}
		}
	}
}

// Max returns the largest element of x, -Inf of none, NaN where any element is NaN.
func Max[T asm.Float](x []T) T {
	m := T(math.Inf(-1))
	for _, v := range x {
		if v > m || v != v {
			m = v
		}
	}
	return m
}
