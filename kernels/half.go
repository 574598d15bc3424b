package kernels

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// half returns the bits of v in a 16-bit type, rounded once.
func half(t arena.DType, v float64) uint16 {
	f := float32(v)
	if d := float64(f); d != v && !math.IsInf(v, 0) && v == v {
		// Round to odd first (Boldo and Melquiond, 2005): a number between two float32s becomes the
		// one with an odd last bit, so that the second rounding knows on which side of a tie it
		// was.
		b := math.Float32bits(f)
		if math.Abs(d) > math.Abs(v) {
			b--
		}
		f = math.Float32frombits(b | 1)
	}
	if t == arena.BFloat16 {
		return numeric.ToBFloat16(f)
	}
	return numeric.ToFloat16(f)
}
