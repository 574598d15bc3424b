package kernels

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
)

// half returns the bits of v in a 16-bit type, rounded once.
func half(t arena.DType, v float64) uint16 {
	f := float16.RoundToOdd(v)
	if t == arena.BFloat16 {
		return float16.ToBFloat16(f)
	}
	return float16.ToFloat16(f)
}
