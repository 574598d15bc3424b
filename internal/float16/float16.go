// Package float16 converts numbers to the floating-point types of 16 bits and back: bfloat16, and
// float16, which is binary16 of IEEE 754. A value of either type is its bits, a uint16. The
// references in package kernels and the devices round as these functions do.
//
// [RoundToOdd] goes before [ToBFloat16] and [ToFloat16] if a number is a float64, so that it is
// rounded once.
package float16

import "math"

// ToBFloat16 returns the bits of the bfloat16 nearest to v, ties to even. A NaN becomes a quiet NaN.
func ToBFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// DitherBFloat16 rounds v stochastically: it returns the bits of one of v's two neighbours in
// bfloat16. If all values of noise are equally likely, the nearer neighbour is the more likely one
// and the mean of the results is v. A bfloat16 value, including 0 and ±Inf, stays as it is. A NaN
// becomes a quiet NaN.
func DitherBFloat16(v float32, noise uint16) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + uint32(noise)) >> 16)
}

// FromBFloat16 returns the value of a bfloat16.
func FromBFloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToFloat16 returns the bits of the float16 nearest to v, ties to even: ±Inf from 65520 on. A NaN
// becomes a quiet NaN.
func ToFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b>>16) & 0x8000
	b &= 1<<31 - 1
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= 0x47800000: // 65536
		return sign | 0x7c00
	case b < 0x38800000: // 2⁻¹⁴: to multiples of 2⁻²⁴, the spacing of float32 numbers above 0.5
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

// RoundToOdd returns v as a float32 that a second rounding, to 16 bits, makes what one rounding of v
// is: a number between two float32s becomes the one whose last bit is 1 (Boldo and Melquiond, 2005),
// so that the second rounding knows on which side of a tie it was.
func RoundToOdd(v float64) float32 {
	f := float32(v)
	d := float64(f)
	if d == v || math.IsInf(v, 0) || v != v {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(d) > math.Abs(v) {
		b--
	}
	return math.Float32frombits(b | 1)
}
