package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// A unaryFunc computes dst[i] = f(a[i]) over a tile. dst may be a. It is what assembly replaces.
type unaryFunc[T float] func(dst, a []T)

// unaryTile returns the tile function of an elementwise op of one operand, or nil. The op alone, a step of a chain
// and an activation of a matmul all use this function, and so have the same bits.
func unaryTile[T float](op *kernels.Op, attrs any) unaryFunc[T] {
	var zero T
	switch any(zero).(type) {
	case float32:
		if f := unary32(op, attrs); f != nil {
			return any(unaryFunc[float32](f)).(unaryFunc[T])
		}
	case float64:
		if f := unary64(op, attrs); f != nil {
			return any(unaryFunc[float64](f)).(unaryFunc[T])
		}
	}
	switch op {
	case kernels.Neg:
		return negTile[T]
	case kernels.Square:
		return squareTile[T]
	case kernels.Cube:
		return cubeTile[T]
	case kernels.Inverse:
		return inverseTile[T]
	case kernels.Sqrt:
		return sqrtTile[T]
	case kernels.InverseSqrt:
		return inverseSqrtTile[T]
	case kernels.Sign:
		return signTile[T]
	case kernels.Affine:
		a := attrs.(kernels.AffineAttrs)
		return affineTile[T](a.Scale, a.Shift)
	}
	if f := unaryMath[op]; f != nil {
		return mathTile[T](f)
	}
	return nil
}

// unaryMath are functions that are computed in float64 and rounded.
var unaryMath = map[*kernels.Op]func(float64) float64{
	kernels.Log2:  math.Log2,
	kernels.Log1p: math.Log1p,
	kernels.Expm1: math.Expm1,
	kernels.Sin:   math.Sin,
	kernels.Cos:   math.Cos,
	kernels.Ceil:  math.Ceil,
	kernels.Floor: math.Floor,
}

func unary32(op *kernels.Op, attrs any) func(dst, a []float32) {
	switch op {
	case kernels.LeakyRelu:
		return leakyRelu32Tile(float32(attrs.(kernels.LeakyReluAttrs).Slope))
	case kernels.Relu:
		return relu32Tile
	case kernels.Abs:
		return abs32Tile
	case kernels.Exp:
		return exp32Tile
	case kernels.Log:
		return log32Tile
	case kernels.Sigmoid:
		return sigmoid32Tile
	case kernels.Tanh:
		return tanh32Tile
	case kernels.Softplus:
		return softplus32Tile
	}
	return nil
}

func unary64(op *kernels.Op, attrs any) func(dst, a []float64) {
	switch op {
	case kernels.LeakyRelu:
		return leakyRelu64Tile(attrs.(kernels.LeakyReluAttrs).Slope)
	case kernels.Relu:
		return relu64Tile
	case kernels.Abs:
		return mathTile[float64](math.Abs)
	case kernels.Exp:
		return mathTile[float64](math.Exp)
	case kernels.Log:
		return mathTile[float64](math.Log)
	case kernels.Sigmoid:
		return mathTile[float64](sigmoid64)
	case kernels.Tanh:
		return mathTile[float64](math.Tanh)
	case kernels.Softplus:
		return mathTile[float64](softplus)
	}
	return nil
}

// unaryCost is roughly how many times dearer than an addition an element is, for the grain of pieces.
func unaryCost(op *kernels.Op) int {
	switch op {
	case kernels.Sqrt, kernels.InverseSqrt, kernels.Inverse, kernels.Div:
		return 4
	case kernels.Exp, kernels.Log, kernels.Sigmoid, kernels.Tanh:
		return 8
	case kernels.Softplus, kernels.Pow:
		return 16
	}
	if unaryMath[op] != nil {
		return 8
	}
	return 1
}

func negTile[T float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = -x
	}
}

func squareTile[T float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x * x
	}
}

func cubeTile[T float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x * x * x
	}
}

func inverseTile[T float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = 1 / x
	}
}

func sqrtTile[T float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(math.Sqrt(float64(x)))
	}
}

func inverseSqrtTile[T float](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(1 / math.Sqrt(float64(x)))
	}
}

func signTile[T float](dst, a []T) {
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

// leakyRelu32Tile takes slope*x where the sign is set, which is right for -0 and NaN too. See relu32Tile.
// It is not inlined: in a copy of the closure inside a large function the compiler leaves the calls.
//
//go:noinline
func leakyRelu32Tile(slope float32) func(dst, a []float32) {
	return func(dst, a []float32) {
		a = a[:len(dst)]
		for i, x := range a {
			b := math.Float32bits(x)
			below := uint32(int32(b) >> 31) // all ones or none
			dst[i] = math.Float32frombits(b&^below | math.Float32bits(slope*x)&below)
		}
	}
}

//go:noinline
func leakyRelu64Tile(slope float64) func(dst, a []float64) {
	return func(dst, a []float64) {
		a = a[:len(dst)]
		for i, x := range a {
			b := math.Float64bits(x)
			below := uint64(int64(b) >> 63) // all ones or none
			dst[i] = math.Float64frombits(b&^below | math.Float64bits(slope*x)&below)
		}
	}
}

func affineTile[T float](scale, shift float64) unaryFunc[T] {
	m, c := T(scale), T(shift)
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, x := range a {
			dst[i] = T(m*x) + c
		}
	}
}

func mathTile[T float](f func(float64) float64) unaryFunc[T] {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, x := range a {
			dst[i] = T(f(float64(x)))
		}
	}
}

// relu32Tile clears what is below zero by its bits, a conditional move instead of a branch that half of all values
// would mispredict. NaN and -0 stay what they are, as with MAXPS(0, x).
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

func abs32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	}
}

func exp32Tile(dst, a []float32) { exps32(dst, a, 0) }

func log32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = log32(x)
	}
}

func sigmoid32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = sigmoid32(x)
	}
}

func tanh32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = tanh32(x)
	}
}

func softplus32Tile(dst, a []float32) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = softplus32(x)
	}
}
