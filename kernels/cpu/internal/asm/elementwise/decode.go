package elementwise

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// A DecodeFunc computes dst[i] = scale*src[i] + shift of stored elements. The arithmetic is in
// float64, so that a pixel near the mean, where scale*x and shift cancel, keeps all its digits.
type DecodeFunc[T asm.Float] func(dst []T, src []byte)

// Decode returns the function of level l for elements stored as t, nil for a type that is not decoded.
func Decode[T asm.Float](l asm.Level, t arena.DType, a kernels.DecodeAttrs) DecodeFunc[T] {
	if decode := At[T](l).decode; decode != nil {
		if f := decode(t, a.Scale, a.Shift); f != nil {
			return f
		}
	}
	switch t {
	case arena.Uint8:
		return decodeBytes[T](a.Scale, a.Shift)
	case arena.Int32:
		return decodeAs[T, int32](a.Scale, a.Shift)
	case arena.Int64:
		return decodeAs[T, int64](a.Scale, a.Shift)
	case arena.Float32:
		return decodeAs[T, float32](a.Scale, a.Shift)
	case arena.Float64:
		return decodeAs[T, float64](a.Scale, a.Shift)
	case arena.BFloat16:
		return decodeHalf[T](float16.FromBFloat16, a.Scale, a.Shift)
	case arena.Float16:
		return decodeHalf[T](float16.FromFloat16, a.Scale, a.Shift)
	}
	return nil
}

// decodeBytes decodes uint8 by a table of the 256 results.
func decodeBytes[T asm.Float](scale, shift float64) DecodeFunc[T] {
	table := new([256]T)
	for i := range table {
		table[i] = T(float64(scale*float64(i)) + shift)
	}
	return func(dst []T, src []byte) {
		src = src[:len(dst)]
		for i, v := range src {
			dst[i] = table[v]
		}
	}
}

// decodeAs decodes elements of type S.
func decodeAs[T asm.Float, S int32 | int64 | float32 | float64](scale, shift float64) DecodeFunc[T] {
	return func(dst []T, src []byte) {
		s := asm.View[S](src)[:len(dst)]
		for i, v := range s {
			dst[i] = T(float64(scale*float64(v)) + shift)
		}
	}
}

// decodeHalf decodes 16-bit elements.
func decodeHalf[T asm.Float](from func(uint16) float32, scale, shift float64) DecodeFunc[T] {
	return func(dst []T, src []byte) {
		s := asm.View[uint16](src)[:len(dst)]
		for i, h := range s {
			dst[i] = T(float64(scale*float64(from(h))) + shift)
		}
	}
}

// AffineFloat64 computes dst[i] = scale*a[i] + shift in float64: a decode of values that an earlier
// step of a chain computed.
func AffineFloat64[T asm.Float](scale, shift float64) UnaryFunc[T] {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, v := range a {
			dst[i] = T(float64(scale*float64(v)) + shift)
		}
	}
}
