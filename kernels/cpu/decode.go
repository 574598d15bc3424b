package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A decodeFunc computes dst[i] = scale*src[i] + shift over a tile of stored elements. The arithmetic is in float64, so
// that a pixel near the mean, where scale*x and shift cancel, keeps all its digits.
type decodeFunc[T float] func(dst []T, src []byte)

func decodeTile[T float](l level, t arena.DType, a kernels.DecodeAttrs) decodeFunc[T] {
	if decode := vectorsAt[T](l).decode; decode != nil {
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
	case arena.Bfloat16:
		return decodeHalf[T](numeric.FromBFloat16, a.Scale, a.Shift)
	case arena.Float16:
		return decodeHalf[T](numeric.FromFloat16, a.Scale, a.Shift)
	}
	return nil
}

// decodeBytes looks the 256 possible results up.
func decodeBytes[T float](scale, shift float64) decodeFunc[T] {
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

func decodeAs[T float, S int32 | int64 | float32 | float64](scale, shift float64) decodeFunc[T] {
	return func(dst []T, src []byte) {
		s := view[S](src)[:len(dst)]
		for i, v := range s {
			dst[i] = T(float64(scale*float64(v)) + shift)
		}
	}
}

func decodeHalf[T float](from func(uint16) float32, scale, shift float64) decodeFunc[T] {
	return func(dst []T, src []byte) {
		s := view[uint16](src)[:len(dst)]
		for i, h := range s {
			dst[i] = T(float64(scale*float64(from(h))) + shift)
		}
	}
}

// affine64Tile decodes what an earlier step of a chain made.
func affine64Tile[T float](scale, shift float64) unaryFunc[T] {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, v := range a {
			dst[i] = T(float64(scale*float64(v)) + shift)
		}
	}
}
