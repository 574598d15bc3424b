package numeric

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
)

// Limits of the magnitude of gradients that an optimizer squares, for float32 and float64: the means
// of their squares are finite, and recover from any finite gradient.
const (
	MostSquared32 = 0x1p63
	MostSquared64 = 0x1p511
)

// MostSquared returns the limit for a type.
func MostSquared(t arena.DType) float64 {
	if t == arena.Float32 {
		return MostSquared32
	}
	return MostSquared64
}

// MostFinite returns the largest finite number of a type.
func MostFinite(t arena.DType) float64 {
	if t == arena.Float32 {
		return math.MaxFloat32
	}
	return math.MaxFloat64
}
