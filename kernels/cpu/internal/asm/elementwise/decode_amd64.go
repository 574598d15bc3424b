//go:build amd64 && !purego

package elementwise

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// decodeAVX2 returns the assembly for elements stored as t, nil where there is none.
func decodeAVX2(t arena.DType, scale, shift float64) DecodeFunc[float32] {
	switch t {
	case arena.Uint8:
		return decodeBy(decodeUint8To32AVX2, scale, shift)
	case arena.Int32:
		return decodeBy(decodeInt32To32AVX2, scale, shift)
	case arena.Float32:
		return decodeBy(decodeFloat32To32AVX2, scale, shift)
	case arena.Float64:
		return decodeBy(decodeFloat64To32AVX2, scale, shift)
	case arena.BFloat16, arena.Float16:
		return decodeWidened(half.At(asm.AVX2, t).Widen, decodeBy(decodeFloat32To32AVX2, scale, shift), scale == 1 && shift == 0)
	}
	return nil
}

// decodeAVX512 returns the assembly for elements stored as t, nil where there is none.
func decodeAVX512(t arena.DType, scale, shift float64) DecodeFunc[float32] {
	switch t {
	case arena.Uint8:
		return decodeBy(decodeUint8To32AVX512, scale, shift)
	case arena.Int32:
		return decodeBy(decodeInt32To32AVX512, scale, shift)
	case arena.Float32:
		return decodeBy(decodeFloat32To32AVX512, scale, shift)
	case arena.Float64:
		return decodeBy(decodeFloat64To32AVX512, scale, shift)
	case arena.BFloat16, arena.Float16:
		return decodeWidened(half.At(asm.AVX512, t).Widen, decodeBy(decodeFloat32To32AVX512, scale, shift), scale == 1 && shift == 0)
	}
	return nil
}

// decodeBy decodes a multiple of eight elements by f, and the rest in Go.
func decodeBy[S uint8 | int32 | float32 | float64](f func(dst []float32, src []S, scale, shift float64), scale, shift float64) DecodeFunc[float32] {
	return func(dst []float32, src []byte) {
		s, n := asm.View[S](src), len(dst)&^7
		f(dst[:n], s[:n], scale, shift)
		for i, v := range s[n:] {
			dst[n+i] = float32(float64(scale*float64(v)) + shift)
		}
	}
}

// decodeWidened widens 16-bit elements to dst and decodes them in place, unless plain: then scale
// is 1 and shift is 0.
func decodeWidened(widen half.ConvertFunc, decode DecodeFunc[float32], plain bool) DecodeFunc[float32] {
	return func(dst []float32, src []byte) {
		to := asm.Bytes(dst)
		widen(to, src, 1, 0, len(dst), 0)
		if !plain {
			decode(dst, to)
		}
	}
}
