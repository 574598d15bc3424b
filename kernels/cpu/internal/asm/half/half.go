// Package half converts between float32 and the 16-bit types bfloat16 and float16.
//
// All conversions round to nearest, ties to even, and have the bits of package kernels' scalar
// conversions. AVX2 and AVX-512 assembly (zz_half_amd64.s) is written by internal/gen/half;
// portable.go holds the Go twins.
package half

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// A ConvertFunc converts rows of n elements. Row r is read at src[r*stride:] and written at
// dst[r*pitch:]; stride and pitch are in bytes. dst may be src where stride equals pitch and no
// element becomes wider.
type ConvertFunc func(dst, src []byte, rows, stride, n, pitch int)

// Conversions are the functions of a level for one 16-bit type.
type Conversions struct {
	Widen  ConvertFunc // 16 bits → float32
	Round  ConvertFunc // float32 → float32 that the 16-bit type holds exactly
	Encode ConvertFunc // float32 → 16 bits
}

// At returns the conversions of level l for t, which is BFloat16 or Float16.
func At(l asm.Level, t arena.DType) *Conversions {
	if t == arena.BFloat16 {
		return bfloat16At(l)
	}
	return float16At(l)
}
