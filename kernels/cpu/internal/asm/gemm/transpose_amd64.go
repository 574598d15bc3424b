//go:build amd64 && !purego

package gemm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A transposer packs columns of 4-byte elements. Its assembly needs a multiple of four steps of k;
// the methods accept any number, and where it is not a multiple they pack the last four steps
// again.
type transposer struct {
	rows8  func(dst, src []byte, k, stride, n, pitch int) // n <= 8 rows
	rows16 func(dst, src []byte, k, stride, pitch int)    // 16 rows
	// Rounds fewer than four steps. Nil: elements are not rounded.
	round half.ConvertFunc
}

// pack8 is Kernels.PackCols for n <= 8 rows.
func (t transposer) pack8(dst, src []byte, k, stride, n, pitch int) {
	if k < 4 {
		goPackCols[float32](dst, src, k, stride, n, pitch)
		if t.round != nil {
			t.round(dst, dst, k, pitch, n, pitch)
		}
		return
	}
	t.rows8(dst, src, k&^3, stride, n, pitch)
	if last := k - 4; k&3 != 0 { // once more for the last four columns
		t.rows8(dst[last*pitch:], src[last*4:], 4, stride, n, pitch)
	}
}

// pack16 is Kernels.PackCols for n <= 16 rows.
func (t transposer) pack16(dst, src []byte, k, stride, n, pitch int) {
	if n < 16 || k < 4 {
		t.pack8(dst, src, k, stride, min(n, 8), pitch)
		if n > 8 {
			t.pack8(dst[8*4:], src[8*stride:], k, stride, n-8, pitch)
		}
		return
	}
	t.rows16(dst, src, k&^3, stride, pitch)
	if last := k - 4; k&3 != 0 {
		t.rows16(dst[last*pitch:], src[last*4:], 4, stride, pitch)
	}
}

var (
	transposeFloat32  = transposer{packCols32, packWideCols32, nil}
	transposeBFloat16 = transposer{packCols32BFloat16, packWideCols32BFloat16, half.At(asm.AVX2, arena.BFloat16).Round}
	transposeFloat16  = transposer{packCols32Float16, packWideCols32Float16, half.At(asm.AVX2, arena.Float16).Round}
)

// roundOnRead is RoundToFloat32 for kernels that round B as they read it: single and half are the
// kinds of a B stored as float32 or as the 16-bit type.
func roundOnRead(c *half.Conversions, single, half int, cols func(dst, src []byte, k, stride, n, pitch int)) *Rounding {
	r := RoundToFloat32(c)
	r.FromFloat32.Kind, r.FromFloat32.PackCols, r.FromHalf.Kind = single, cols, half
	return r
}

// pack4Float64 is Kernels.PackCols for n <= 4 rows of float64.
func pack4Float64(dst, src []byte, k, stride, n, pitch int) {
	if k < 2 {
		goPackCols[float64](dst, src, k, stride, n, pitch)
		return
	}
	packCols64(dst, src, k&^1, stride, n, pitch)
	if last := k - 2; k&1 != 0 {
		packCols64(dst[last*pitch:], src[last*8:], 2, stride, n, pitch)
	}
}

// pack8Float64 is Kernels.PackCols for n <= 8 rows of float64.
func pack8Float64(dst, src []byte, k, stride, n, pitch int) {
	if n < 8 || k < 2 {
		pack4Float64(dst, src, k, stride, min(n, 4), pitch)
		if n > 4 {
			pack4Float64(dst[4*8:], src[4*stride:], k, stride, n-4, pitch)
		}
		return
	}
	packWideCols64(dst, src, k&^1, stride, pitch)
	if last := k - 2; k&1 != 0 {
		packWideCols64(dst[last*pitch:], src[last*8:], 2, stride, pitch)
	}
}
