package elementwise

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// unaryMath holds the functions that the Go twins compute in float64 and round.
var unaryMath = map[*kernels.Op]func(float64) float64{
	kernels.Log2:  math.Log2,
	kernels.Log1p: math.Log1p,
	kernels.Expm1: math.Expm1,
	kernels.Sin:   math.Sin,
	kernels.Cos:   math.Cos,
	kernels.Erf:   math.Erf,
	kernels.Ceil:  math.Ceil,
	kernels.Floor: math.Floor,
}

// Cost returns roughly how many times as long as an addition an element takes in vectors.
func Cost(op *kernels.Op) int {
	switch op {
	case kernels.Sqrt, kernels.InverseSqrt, kernels.Inverse, kernels.Div:
		return 2
	case kernels.Exp, kernels.Log, kernels.Sigmoid, kernels.Tanh:
		return 4
	case kernels.Softplus, kernels.Sin, kernels.Cos, kernels.Erf, kernels.Pow:
		return 8
	}
	if unaryMath[op] != nil {
		return 4
	}
	return 1
}

// negTile computes -a.
func negTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = -x
	}
}

// squareTile computes a².
func squareTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x * x
	}
}

// cubeTile computes a³.
func cubeTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x * x * x
	}
}

// inverseTile computes 1/a.
func inverseTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = 1 / x
	}
}

// sqrtTile computes √a.
func sqrtTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(math.Sqrt(float64(x)))
	}
}

// inverseSqrtTile computes 1/√a.
func inverseSqrtTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(1 / math.Sqrt(float64(x)))
	}
}

// signTile computes the sign of a: 1, -1, or a where it is 0 or NaN.
func signTile[T asm.Float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		switch {
		case x > 0:
			dst[i] = 1
		case x < 0:
			dst[i] = -1
		default:
			dst[i] = x // 0, or NaN
		}
	}
}

// leakyRelu32Tile selects slope*x where the sign bit is set, which is right for -0 and NaN too. See
// relu32Tile.
func leakyRelu32Tile(dst, a []float32, slope float32) {
	a = a[:len(dst)]
	for i, x := range a {
		b := math.Float32bits(x)
		below := uint32(int32(b) >> 31) // all ones or none
		dst[i] = math.Float32frombits(b&^below | math.Float32bits(slope*x)&below)
	}
}

// leakyRelu64Tile is leakyRelu32Tile for float64.
func leakyRelu64Tile(dst, a []float64, slope float64) {
	a = a[:len(dst)]
	for i, x := range a {
		b := math.Float64bits(x)
		below := uint64(int64(b) >> 63) // all ones or none
		dst[i] = math.Float64frombits(b&^below | math.Float64bits(slope*x)&below)
	}
}

// affineTile computes scale·a + shift, rounded twice.
func affineTile[T asm.Float](dst, a []T, scale, shift T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(scale*x) + shift
	}
}

// Map returns a function that computes f in float64 and rounds.
func Map[T asm.Float](f func(float64) float64) UnaryFunc[T] {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, x := range a {
			dst[i] = T(f(float64(x)))
		}
	}
}

// relu32Tile clears negative values by their bits: a conditional move instead of a branch that half
// of all values would mispredict. NaN and -0 do not change, as with MAXPS(0, x).
func relu32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		b := math.Float32bits(x)
		if b-0x80000001 < 0x7f800000 {
			b = 0
		}
		dst[i] = math.Float32frombits(b)
	}
}

// relu64Tile is relu32Tile for float64.
func relu64Tile(dst, a []float64) {
	a = a[:len(dst)]
	for i, x := range a {
		b := math.Float64bits(x)
		if b-0x8000000000000001 < 0x7ff0000000000000 {
			b = 0
		}
		dst[i] = math.Float64frombits(b)
	}
}

// abs32Tile computes |a| by clearing the sign bit.
func abs32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	}
}

// exp32Tile computes exp(a).
func exp32Tile(dst, a []float32) { exps32(dst, a, 0) }

// log32Tile computes log(a).
func log32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = log32(x)
	}
}

// sigmoid32Tile computes 1/(1+exp(-a)).
func sigmoid32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = sigmoid32(x)
	}
}

// tanh32Tile computes tanh(a).
func tanh32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = tanh32(x)
	}
}

// softplus32Tile computes log(1+exp(a)).
func softplus32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = softplus32(x)
	}
}
