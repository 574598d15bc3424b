//go:build amd64 && !purego

package gemm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

//go:generate go -C ../../../../../internal/gen run ./gemm -dir ../../kernels/cpu/internal/asm/gemm

var avx512x32 = &Kernels{
	Name: "avx512", Type: arena.Float32, Rows: 14, Cols: 32, Lanes: 16,
	PacksB: true,
	Tiles: []func(*Tile){nil,
		wideTile1x32x32, wideTile2x32x32, wideTile3x32x32, wideTile4x32x32, wideTile5x32x32,
		wideTile6x32x32, wideTile7x32x32, wideTile8x32x32, wideTile9x32x32, wideTile10x32x32,
		wideTile11x32x32, wideTile12x32x32, wideTile13x32x32, wideTile14x32x32,
	},
	HalfTiles: []func(*Tile){nil,
		wideTile1x16x32, wideTile2x16x32, wideTile3x16x32, wideTile4x16x32, wideTile5x16x32,
		wideTile6x16x32, wideTile7x16x32, wideTile8x16x32, wideTile9x16x32, wideTile10x16x32,
		wideTile11x16x32, wideTile12x16x32, wideTile13x16x32, wideTile14x16x32,
	},
	PackRows: packRows128, PackCols: transposeFloat32.pack16, Dots: wideDots32, Prefetch: asm.Prefetch,
	RowTiles: []RowTile{{256, wideLine1x256x32}, {128, wideLine1x128x32}, {64, wideLine1x64x32}},
	BFloat16: roundOnRead(half.At(asm.AVX512, arena.BFloat16), kindRoundBFloat16, kindWidenBFloat16, transposeBFloat16.pack16),
	Float16:  roundOnRead(half.At(asm.AVX512, arena.Float16), kindRoundFloat16, kindWidenFloat16, transposeFloat16.pack16),
}

var avx512x64 = &Kernels{
	Name: "avx512", Type: arena.Float64, Rows: 14, Cols: 16, Lanes: 8,
	PacksB: true,
	Tiles: []func(*Tile){nil,
		wideTile1x16x64, wideTile2x16x64, wideTile3x16x64, wideTile4x16x64, wideTile5x16x64,
		wideTile6x16x64, wideTile7x16x64, wideTile8x16x64, wideTile9x16x64, wideTile10x16x64,
		wideTile11x16x64, wideTile12x16x64, wideTile13x16x64, wideTile14x16x64,
	},
	HalfTiles: []func(*Tile){nil,
		wideTile1x8x64, wideTile2x8x64, wideTile3x8x64, wideTile4x8x64, wideTile5x8x64, wideTile6x8x64,
		wideTile7x8x64, wideTile8x8x64, wideTile9x8x64, wideTile10x8x64, wideTile11x8x64, wideTile12x8x64,
		wideTile13x8x64, wideTile14x8x64,
	},
	PackRows: packRows128, PackCols: pack8Float64, Dots: dots64, Prefetch: asm.Prefetch,
	RowTiles: []RowTile{{128, wideLine1x128x64}, {64, wideLine1x64x64}, {32, wideLine1x32x64}},
}

// avx512Pairs multiplies pairs of bfloat16.
var avx512Pairs = &Kernels{
	Name: "avx512bf16", Type: arena.Float32, Rows: 14, Cols: 32, Lanes: 16,
	Tiles: []func(*Tile){nil,
		wideTile1x32xPairs, wideTile2x32xPairs, wideTile3x32xPairs, wideTile4x32xPairs, wideTile5x32xPairs,
		wideTile6x32xPairs, wideTile7x32xPairs, wideTile8x32xPairs, wideTile9x32xPairs, wideTile10x32xPairs,
		wideTile11x32xPairs, wideTile12x32xPairs, wideTile13x32xPairs, wideTile14x32xPairs,
	},
	HalfTiles: []func(*Tile){nil,
		wideTile1x16xPairs, wideTile2x16xPairs, wideTile3x16xPairs, wideTile4x16xPairs, wideTile5x16xPairs,
		wideTile6x16xPairs, wideTile7x16xPairs, wideTile8x16xPairs, wideTile9x16xPairs, wideTile10x16xPairs,
		wideTile11x16xPairs, wideTile12x16xPairs, wideTile13x16xPairs, wideTile14x16xPairs,
	},
	PackCols: transposeFloat32.pack16, Prefetch: asm.Prefetch, Float32: avx512x32,
	BFloat16: &Rounding{Packing{Size: 4, Along: pairsAlong, Across: pairsAcross32}, Packing{Size: 2, Along: PairsAlong16, Across: pairsAcross16}},
}

var avx2x32 = &Kernels{
	Name: "avx2", Type: arena.Float32, Rows: 6, Cols: 16, Lanes: 8,
	PacksB: true,
	Tiles: []func(*Tile){nil,
		tile1x16x32, tile2x16x32, tile3x16x32, tile4x16x32, tile5x16x32, tile6x16x32,
	},
	HalfTiles: []func(*Tile){nil,
		tile1x8x32, tile2x8x32, tile3x8x32, tile4x8x32, tile5x8x32, tile6x8x32,
	},
	PackRows: packRows64, PackCols: transposeFloat32.pack8, Dots: dots32, Prefetch: asm.Prefetch,
	RowTiles: []RowTile{{64, line1x64x32}, {32, line1x32x32}},
	BFloat16: roundOnRead(half.At(asm.AVX2, arena.BFloat16), kindRoundBFloat16, kindWidenBFloat16, transposeBFloat16.pack8),
	Float16:  roundOnRead(half.At(asm.AVX2, arena.Float16), kindRoundFloat16, kindWidenFloat16, transposeFloat16.pack8),
}

var avx2x64 = &Kernels{
	Name: "avx2", Type: arena.Float64, Rows: 6, Cols: 8, Lanes: 4,
	PacksB: true,
	Tiles: []func(*Tile){nil,
		tile1x8x64, tile2x8x64, tile3x8x64, tile4x8x64, tile5x8x64, tile6x8x64,
	},
	HalfTiles: []func(*Tile){nil,
		tile1x4x64, tile2x4x64, tile3x4x64, tile4x4x64, tile5x4x64, tile6x4x64,
	},
	PackRows: packRows64, PackCols: pack4Float64, Dots: dots64, Prefetch: asm.Prefetch,
	RowTiles: []RowTile{{32, line1x32x64}, {16, line1x16x64}},
}

// BFloat16Pairs returns the kernels for pairs of bfloat16, nil where the processor does not
// multiply them.
func BFloat16Pairs() *Kernels {
	if !asm.HasBFloat16Dot() {
		return nil
	}
	return avx512Pairs
}

// kernelsAt returns the kernels of a level, one for each type.
func kernelsAt(l asm.Level) []*Kernels {
	switch l {
	case asm.AVX512:
		return []*Kernels{avx512x32, avx512x64}
	case asm.AVX2:
		return []*Kernels{avx2x32, avx2x64}
	}
	return portable
}
