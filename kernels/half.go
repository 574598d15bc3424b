package kernels

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
)

// ToBfloat16 returns the bits of the bfloat16 nearest to v, of two the even one. NaNs stay NaNs and become quiet.
func ToBfloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// DitherBfloat16 returns the bits of one of v's two neighbours in bfloat16. With all values of noise equally likely, each is the likelier the
// nearer v is, and their mean is v. What is a bfloat16 stays what it is, 0 and ±Inf too; NaNs stay NaNs and become quiet.
func DitherBfloat16(v float32, noise uint16) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + uint32(noise)) >> 16)
}

// FromBfloat16 returns the value of a bfloat16.
func FromBfloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToFloat16 returns the bits of the float16 nearest to v, of two the even one: ±Inf from 65520 on. NaNs stay NaNs and become quiet.
func ToFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b>>16) & 0x8000
	b &= 1<<31 - 1
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= 0x47800000: // 65536
		return sign | 0x7c00
	case b < 0x38800000: // 2⁻¹⁴: to multiples of 2⁻²⁴, the distance of float32 beside 0.5
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-(127-15)<<23+0xfff+b>>13&1)>>13)
}

// FromFloat16 returns the value of a float16.
func FromFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	switch b := uint32(h & 0x7fff); {
	case b >= 0x7c00:
		return math.Float32frombits(sign | 0x7f800000 | b<<13)
	case b < 0x400:
		return math.Float32frombits(sign | math.Float32bits(float32(b)*0x1p-24))
	default:
		return math.Float32frombits(sign | (b<<13 + (127-15)<<23))
	}
}

// half returns the bits of v in a type of 16 bits, rounded once.
func half(t arena.DType, v float64) uint16 {
	f := float32(v)
	if d := float64(f); d != v && !math.IsInf(v, 0) && v == v {
		// Rounded to odd first (Boldo and Melquiond, 2005): what lies between two float32s becomes the one with an odd last bit, so that
		// the second rounding sees on which side of a tie it was.
		b := math.Float32bits(f)
		if math.Abs(d) > math.Abs(v) {
			b--
		}
		f = math.Float32frombits(b | 1)
	}
	if t == arena.Bfloat16 {
		return ToBfloat16(f)
	}
	return ToFloat16(f)
}
