package weights

import "math"

// fromBFloat16 returns the value of a bfloat16.
func fromBFloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// toBFloat16 returns the bits of the bfloat16 nearest to v, ties to even. A NaN becomes a quiet
// NaN.
func toBFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 1<<6
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// fromFloat16 returns the value of an IEEE 754 binary16.
func fromFloat16(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0: // ±0 and subnormal: frac·2^-24
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// toFloat16 returns the bits of the binary16 nearest to v, ties to even; above its range, infinity.
func toFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	sign, b := uint16(b>>16)&0x8000, b&^(1<<31)
	switch {
	case b > 255<<23: // NaN
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= (127+16)<<23: // 65536 and more
		return sign | 0x7c00
	case b < (127-14)<<23: // subnormal: the addition rounds to a multiple of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1 // may carry into the exponent, and to infinity
	return sign | uint16((b-(127-15)<<23)>>13)
}
