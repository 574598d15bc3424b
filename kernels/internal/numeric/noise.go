package numeric

import "math"

// Noise returns 32 pseudorandom bits, by which Adam16 rounds the means of an element in update t.
// param and grad are the Words of the element's parameter and of its gradient before scaling and
// clipping. The lower half is for m, the upper half for v. Source of the last three lines: Wellons,
// hash-prospector, lowbias32: every bit of the result depends on every bit of x.
func Noise(param, grad, t uint32) uint32 {
	x := param*NoiseParam + grad + t*NoiseUpdate
	x = (x ^ x>>16) * NoiseM0
	x = (x ^ x>>15) * NoiseM1
	return x ^ x>>16
}

// The constants of Noise: the multipliers of parameter and update, and those of lowbias32.
const (
	NoiseParam  = 0x9E3779B1
	NoiseUpdate = 0x85EBCA77
	NoiseM0     = 0x7FEB352D
	NoiseM1     = 0x846CA68B
)

// Word returns the bits of x: of a float64, the exclusive or of both halves.
func Word[T float32 | float64](x T) uint32 {
	switch x := any(x).(type) {
	case float32:
		return math.Float32bits(x)
	case float64:
		b := math.Float64bits(x)
		return uint32(b) ^ uint32(b>>32)
	}
	return 0
}
