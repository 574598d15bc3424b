package cpu

import "math"

// goFolder holds the folds in Go, which give the bits of the assembly except where that takes denormal numbers for 0.
func goFolder[T float]() *folder[T] {
	return &folder[T]{
		rows: [folds]func([]float64, []T, int){goRowsSum[T], goRowsMax[T], goRowsSquares[T]},
		cols: [folds]func([]float64, []T, int, int){goColsSum[T], goColsMax[T], nil},
	}
}

const sums = 32 // partial results of a tile

// goTiles calls f with the tiles of each row.
func goTiles[T float](rows int, x []T, n int, f func(row int, tile []T)) {
	for i := range rows {
		for row := x[i*n : (i+1)*n]; len(row) > 0; {
			m := min(tileLen, len(row))
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
		for ; len(tile) >= sums; tile = tile[sums:] {
			t := tile[:sums]
			for l := range s {
				s[l] += float64(t[l])
			}
		}
		for l, v := range tile {
			s[l] += float64(v)
		}
		acc[row] += tree(&s)
	})
}

func goRowsSquares[T float](acc []float64, x []T, n int) {
	goTiles(len(acc), x, n, func(row int, tile []T) {
		var s [sums]float64
		for ; len(tile) >= sums; tile = tile[sums:] {
			t := tile[:sums]
			for l := range s {
				v := float64(t[l])
				s[l] += v * v
			}
		}
		for l, v := range tile {
			s[l] += float64(v) * float64(v)
		}
		acc[row] += tree(&s)
	})
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
