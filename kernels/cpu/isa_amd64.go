//go:build amd64 && !purego

package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

//go:generate go -C ../../internal/gen run ./matmul -dir ../../kernels/cpu

var avx512x32 = &isa{
	name: "avx512", typ: arena.Float32, rows: 14, cols: 32, lanes: 16,
	packs: true,
	tiles: []func(*tile){nil,
		wideTile1x32x32, wideTile2x32x32, wideTile3x32x32, wideTile4x32x32, wideTile5x32x32,
		wideTile6x32x32, wideTile7x32x32, wideTile8x32x32, wideTile9x32x32, wideTile10x32x32,
		wideTile11x32x32, wideTile12x32x32, wideTile13x32x32, wideTile14x32x32,
	},
	halves: []func(*tile){nil,
		wideTile1x16x32, wideTile2x16x32, wideTile3x16x32, wideTile4x16x32, wideTile5x16x32,
		wideTile6x16x32, wideTile7x16x32, wideTile8x16x32, wideTile9x16x32, wideTile10x16x32,
		wideTile11x16x32, wideTile12x16x32, wideTile13x16x32, wideTile14x16x32,
	},
	packRows: packRows128, packCols: turnFloats.wideCols, dots: wideDots32, prefetch: asm.Prefetch,
	line: wideLine1x256x32, lineCols: 256,
	bfloat16: fused(half.At(asm.AVX512, arena.Bfloat16), kindRoundBfloat16, kindWidenBfloat16, turnBfloat16s.wideCols),
	float16:  fused(half.At(asm.AVX512, arena.Float16), kindRoundFloat16, kindWidenFloat16, turnFloat16s.wideCols),
}

var avx512x64 = &isa{
	name: "avx512", typ: arena.Float64, rows: 14, cols: 16, lanes: 8,
	packs: true,
	tiles: []func(*tile){nil,
		wideTile1x16x64, wideTile2x16x64, wideTile3x16x64, wideTile4x16x64, wideTile5x16x64,
		wideTile6x16x64, wideTile7x16x64, wideTile8x16x64, wideTile9x16x64, wideTile10x16x64,
		wideTile11x16x64, wideTile12x16x64, wideTile13x16x64, wideTile14x16x64,
	},
	halves: []func(*tile){nil,
		wideTile1x8x64, wideTile2x8x64, wideTile3x8x64, wideTile4x8x64, wideTile5x8x64, wideTile6x8x64,
		wideTile7x8x64, wideTile8x8x64, wideTile9x8x64, wideTile10x8x64, wideTile11x8x64, wideTile12x8x64,
		wideTile13x8x64, wideTile14x8x64,
	},
	packRows: packRows128, packCols: wideCols64, dots: dots64, prefetch: asm.Prefetch,
	line: wideLine1x128x64, lineCols: 128,
}

// avx512Pairs multiplies pairs of bfloat16.
var avx512Pairs = &isa{
	name: "avx512bf16", typ: arena.Float32, rows: 14, cols: 32, lanes: 16,
	tiles: []func(*tile){nil,
		wideTile1x32xPairs, wideTile2x32xPairs, wideTile3x32xPairs, wideTile4x32xPairs, wideTile5x32xPairs,
		wideTile6x32xPairs, wideTile7x32xPairs, wideTile8x32xPairs, wideTile9x32xPairs, wideTile10x32xPairs,
		wideTile11x32xPairs, wideTile12x32xPairs, wideTile13x32xPairs, wideTile14x32xPairs,
	},
	halves: []func(*tile){nil,
		wideTile1x16xPairs, wideTile2x16xPairs, wideTile3x16xPairs, wideTile4x16xPairs, wideTile5x16xPairs,
		wideTile6x16xPairs, wideTile7x16xPairs, wideTile8x16xPairs, wideTile9x16xPairs, wideTile10x16xPairs,
		wideTile11x16xPairs, wideTile12x16xPairs, wideTile13x16xPairs, wideTile14x16xPairs,
	},
	packCols: turnFloats.wideCols, prefetch: asm.Prefetch, plain: avx512x32,
	bfloat16: &rounding{factor{size: 4, along: pairsAlong, across: pairsAcross32}, factor{size: 2, along: pairsAlong16, across: pairsAcross16}},
}

var avx2x32 = &isa{
	name: "avx2", typ: arena.Float32, rows: 6, cols: 16, lanes: 8,
	packs: true,
	tiles: []func(*tile){nil,
		tile1x16x32, tile2x16x32, tile3x16x32, tile4x16x32, tile5x16x32, tile6x16x32,
	},
	halves: []func(*tile){nil,
		tile1x8x32, tile2x8x32, tile3x8x32, tile4x8x32, tile5x8x32, tile6x8x32,
	},
	packRows: packRows64, packCols: turnFloats.cols, dots: dots32, prefetch: asm.Prefetch,
	line: line1x64x32, lineCols: 64,
	bfloat16: fused(half.At(asm.AVX2, arena.Bfloat16), kindRoundBfloat16, kindWidenBfloat16, turnBfloat16s.cols),
	float16:  fused(half.At(asm.AVX2, arena.Float16), kindRoundFloat16, kindWidenFloat16, turnFloat16s.cols),
}

var avx2x64 = &isa{
	name: "avx2", typ: arena.Float64, rows: 6, cols: 8, lanes: 4,
	packs: true,
	tiles: []func(*tile){nil,
		tile1x8x64, tile2x8x64, tile3x8x64, tile4x8x64, tile5x8x64, tile6x8x64,
	},
	halves: []func(*tile){nil,
		tile1x4x64, tile2x4x64, tile3x4x64, tile4x4x64, tile5x4x64, tile6x4x64,
	},
	packRows: packRows64, packCols: cols64, dots: dots64, prefetch: asm.Prefetch,
	line: line1x32x64, lineCols: 32,
}

// pairs returns the kernels for pairs of bfloat16, nil where the processor has none.
func pairs() *isa {
	if !asm.HasBfloat16Dot() {
		return nil
	}
	return avx512Pairs
}

// isasAt returns the kernels of a level, one a type.
func isasAt(l asm.Level) []*isa {
	switch l {
	case asm.AVX512:
		return []*isa{avx512x32, avx512x64}
	case asm.AVX2:
		return []*isa{avx2x32, avx2x64}
	}
	return portable
}

// A turner is how 4-byte elements are transposed: 8 rows at once of a multiple of 4 steps, or 16, and rounded, if they are, with any few elements
// by a function of their own.
type turner struct {
	narrow func(dst, src []byte, k, stride, n, pitch int)
	wide   func(dst, src []byte, k, stride, pitch int)
	round  half.ConvertFunc // nil: they are not
}

// cols is packCols for 8 rows and any k.
func (t turner) cols(dst, src []byte, k, stride, n, pitch int) {
	if k < 4 {
		goPackCols[float32](dst, src, k, stride, n, pitch)
		if t.round != nil {
			t.round(dst, dst, k, pitch, n, pitch)
		}
		return
	}
	t.narrow(dst, src, k&^3, stride, n, pitch)
	if last := k - 4; k&3 != 0 { // once more for the last four columns
		t.narrow(dst[last*pitch:], src[last*4:], 4, stride, n, pitch)
	}
}

// wideCols is packCols for 16 rows and any k.
func (t turner) wideCols(dst, src []byte, k, stride, n, pitch int) {
	if n < 16 || k < 4 {
		t.cols(dst, src, k, stride, min(n, 8), pitch)
		if n > 8 {
			t.cols(dst[8*4:], src[8*stride:], k, stride, n-8, pitch)
		}
		return
	}
	t.wide(dst, src, k&^3, stride, pitch)
	if last := k - 4; k&3 != 0 {
		t.wide(dst[last*pitch:], src[last*4:], 4, stride, pitch)
	}
}

var (
	turnFloats    = turner{packCols32, packWideCols32, nil}
	turnBfloat16s = turner{packCols32Bfloat16, packWideCols32Bfloat16, half.At(asm.AVX2, arena.Bfloat16).Round}
	turnFloat16s  = turner{packCols32Float16, packWideCols32Float16, half.At(asm.AVX2, arena.Float16).Round}
)

// fused packs float32 for kernels that round as they read B, by the kinds of what is stored in float32 and in the type itself.
func fused(c *half.Conversions, single, half int, cols func(dst, src []byte, k, stride, n, pitch int)) *rounding {
	r := floats(c)
	r.single.kind, r.single.cols, r.half.kind = single, cols, half
	return r
}

// cols64 is packCols for 8-byte elements and any k.
func cols64(dst, src []byte, k, stride, n, pitch int) {
	if k < 2 {
		goPackCols[float64](dst, src, k, stride, n, pitch)
		return
	}
	packCols64(dst, src, k&^1, stride, n, pitch)
	if last := k - 2; k&1 != 0 {
		packCols64(dst[last*pitch:], src[last*8:], 2, stride, n, pitch)
	}
}

// wideCols64 is packCols for 8-byte elements, 8 rows and any k.
func wideCols64(dst, src []byte, k, stride, n, pitch int) {
	if n < 8 || k < 2 {
		cols64(dst, src, k, stride, min(n, 4), pitch)
		if n > 4 {
			cols64(dst[4*8:], src[4*stride:], k, stride, n-4, pitch)
		}
		return
	}
	packWideCols64(dst, src, k&^1, stride, pitch)
	if last := k - 2; k&1 != 0 {
		packWideCols64(dst[last*pitch:], src[last*8:], 2, stride, pitch)
	}
}
