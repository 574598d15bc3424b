package cpu

import "math"

// goFolder holds the folds in Go. They give the bits of the assembly, except where that takes denormal numbers for 0 or adds
// squares of float64 without rounding them first.
func goFolder[T float]() *folder[T] {
	return &folder[T]{
		rows: [folds]func([]float64, []T, int){goRowsSum[T], goRowsMax[T], goRowsSquares[T]},
		cols: [folds]func([]float64, []T, int, int){goColsSum[T], goColsMax[T], nil},
	}
}

// foldTile is the elements of a tile.
const foldTile = 1024

const (
	sums  = 32 // partial results of a tile
	short = 64 // elements of a tile that is not worth four passes
)

// goTiles calls f with the tiles of each row.
func goTiles[T float](rows int, x []T, n int, f func(row int, tile []T)) {
	for i := range rows {
		for row := x[i*n : (i+1)*n]; len(row) > 0; {
			m := min(foldTile, len(row))
			f(i, row[:m])
			row = row[m:]
		}
	}
}

// tree adds up partial sums in the order in which vectors of eight are added, and then their halves.
func tree(s *[sums]float64) float64 {
	var v [8]float64
	for l := range v {
		v[l] = (s[l] + s[8+l]) + (s[16+l] + s[24+l])
	}
	return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}

func goRowsSum[T float](acc []float64, x []T, n int) {
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
		acc[row] += tree(&s)
	})
}

// goLanes adds eight elements of each 32, from the first on, to s.
func goLanes[T float](s *[8]float64, x []T) {
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

func goRowsSquares[T float](acc []float64, x []T, n int) {
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
		acc[row] += tree(&s)
	})
}

// goLaneSquares adds the squares of eight elements of each 32, from the first on, to s.
func goLaneSquares[T float](s *[8]float64, x []T) {
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

func goRowsMax[T float](acc []float64, x []T, n int) {
	goTiles(len(acc), x, n, func(row int, tile []T) { acc[row] = foldMax.join(acc[row], float64(maxOf(tile))) })
}

func goColsSum[T float](acc []float64, x []T, rows, stride int) {
	for i := range rows {
		row := x[i*stride:][:len(acc)]
		for j := range acc {
			acc[j] += float64(row[j])
		}
	}
}

func goColsMax[T float](acc []float64, x []T, rows, stride int) {
	for i := range rows {
		for j, v := range x[i*stride:][:len(acc)] {
			if w := float64(v); w > acc[j] || w != w {
				acc[j] = w
			}
		}
	}
}

// maxOf returns the largest element; NaN where there is one.
func maxOf[T float](x []T) T {
	m := T(math.Inf(-1))
	for _, v := range x {
		if v > m || v != v {
			m = v
		}
	}
	return m
}
