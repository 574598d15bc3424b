package elementwise

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// addTile computes a + b.
func addTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// subTile computes a - b.
func subTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// mulTile computes a·b.
func mulTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// divTile computes a/b.
func divTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// maxTile computes max(a, b); b where either is NaN.
func maxTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		w := b[i]
		if v > w {
			w = v
		}
		dst[i] = w
	}
}

// maximumTile computes max(a, b); NaN where either is NaN.
func maximumTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		w := b[i]
		if v > w || v != v {
			w = v
		}
		dst[i] = w
	}
}

// minimumTile computes min(a, b); NaN where either is NaN.
func minimumTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		w := b[i]
		if v < w || v != v {
			w = v
		}
		dst[i] = w
	}
}

// powTile computes a^b in float64.
func powTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Pow(float64(a[i]), float64(b[i])))
	}
}

// Map2 returns a function that computes op in float64 by its definition and rounds.
func Map2[T asm.Float](op *kernels.Op, attrs any) BinaryFunc[T] {
	return func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = T(op.Elem(attrs, float64(a[i]), float64(b[i])))
		}
	}
}

// Truth returns 1 for true and 0 for false, without a branch.
func Truth(b bool) uint8 {
	var n uint8
	if b {
		n = 1
	}
	return n
}

// lessTile computes a < b as 1 or 0.
func lessTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(Truth(a[i] < b[i]))
	}
}

// lessEqualTile computes a <= b as 1 or 0.
func lessEqualTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(Truth(a[i] <= b[i]))
	}
}

// equalTile computes a == b as 1 or 0.
func equalTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(Truth(a[i] == b[i]))
	}
}

// notEqualTile computes a != b as 1 or 0.
func notEqualTile[T asm.Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(Truth(a[i] != b[i]))
	}
}

// reluGradTile passes dy where y is above zero, by bits: see relu32Tile.
func reluGradTile[T asm.Float](dst, y, dy []T) {
	switch d := any(dst).(type) {
	case []float32:
		a, b := any(y).([]float32)[:len(d)], any(dy).([]float32)[:len(d)]
		for i := range d {
			g := math.Float32bits(b[i])
			if int32(math.Float32bits(a[i])) <= 0 {
				g = 0
			}
			d[i] = math.Float32frombits(g)
		}
	case []float64:
		a, b := any(y).([]float64)[:len(d)], any(dy).([]float64)[:len(d)]
		for i := range d {
			g := math.Float64bits(b[i])
			if int64(math.Float64bits(a[i])) <= 0 {
				g = 0
			}
			d[i] = math.Float64frombits(g)
		}
	}
}

// leakyReluGradTile computes dy where y > 0, otherwise slope·dy.
func leakyReluGradTile[T asm.Float](dst, y, dy []T, slope T) {
	s := [2]T{slope, 1} // by truth, since a branch would be mispredicted half of the time
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i := range dst {
		dst[i] = dy[i] * s[Truth(y[i] > 0)&1]
	}
}

// sigmoidGradTile computes dy·y·(1-y).
func sigmoidGradTile[T asm.Float](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i, v := range y {
		dst[i] = dy[i] * T(v*(1-v))
	}
}

// tanhGradTile computes dy·(1-y²).
func tanhGradTile[T asm.Float](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i, v := range y {
		dst[i] = dy[i] * (1 - T(v*v))
	}
}
