package update

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A Codec holds the 8-bit code of package kernels as tables, so that encoding does not branch on
// unpredictable values. Codes are piecewise linear: interval d covers numbers from 8^-(d+1) to
// 8^-d.
type Codec[T asm.Float] struct {
	slope, start [8]T   // by interval: the code of x is slope·x + start
	values       [256]T // by code byte
	top          int32  // the last interval
}

// fill computes the tables for intervals 0..top.
func (c *Codec[T]) fill(top int) {
	c.top = int32(top)
	for code := range 2 << top {
		c.values[code] = numeric.Decode8[T](code, top)
	}
	for d := range top + 1 {
		n := math.Ldexp(1, top-d) // codes of the interval
		c.slope[d] = T(n / 7 * math.Pow(8, float64(d+1)))
		c.start[d] = T(n - 1 - n/7 + 0.5)
	}
}

// encode returns numeric.Encode8 of x, which is not negative; ties may round the other way.
func (c *Codec[T]) encode(x T) int {
	if !(x < 1) {
		x = 1
	}
	d := min((126-int32(math.Float32bits(float32(x))>>23))/3, c.top) & 7
	return int(x*c.slope[d] + c.start[d])
}

// scales returns two factors whose product is 1/most. A single factor would be denormal for a huge
// most.
func scales[T asm.Float](most T) (shrink, by T) {
	if shrink = 1; most > 1 {
		shrink = 0x1p-8
	}
	return shrink, 1 / (most * shrink)
}

// encodeMeans sets codes to the signed codes of x/most, where most is the largest magnitude of x.
func (c *Codec[T]) encodeMeans(codes []int8, x []T, most T) {
	if most == 0 {
		clear(codes)
		return
	}
	shrink, by := scales(most)
	for i, v := range x {
		negative := int32(math.Float32bits(float32(v))) >> 31
		code := int32(c.encode(T(math.Abs(float64(v))) * shrink * by))
		codes[i] = int8((code ^ negative) - negative)
	}
}

// encodeRoots sets codes to the codes of x/most. Elements are not negative; one above 0 gets a code
// above 0.
func (c *Codec[T]) encodeRoots(codes []uint8, x []T, most T) {
	if most == 0 {
		clear(codes)
		return
	}
	shrink, by := scales(most)
	for i, v := range x {
		code := uint8(c.encode(v * shrink * by))
		if code == 0 && v > 0 {
			code = 1
		}
		codes[i] = code
	}
}
