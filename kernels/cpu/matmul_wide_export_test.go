package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// wide are kernels in plain Go with the sizes of the AVX-512 ones, so that the cutting, packing and edges for those
// sizes are tested on every processor.
var wide = []*gemm.Kernels{widePairs(), wideISA[float32](arena.Float32, 32, 8), wideISA[float64](arena.Float64, 16, 4)}

func wideISA[T float](typ arena.DType, cols, lanes int) *gemm.Kernels {
	tiles := make([]func(*gemm.Tile), 15)
	for i := range tiles {
		tiles[i] = wideTile[T]
	}
	s := &gemm.Kernels{
		Name: "wide", Type: typ, Rows: 14, Cols: cols, Lanes: lanes, Tiles: tiles, HalfTiles: tiles,
		PackRows: func(dst, src []byte, k, stride, n int) {
			size := asm.SizeOf[T]()
			for i := range k {
				row := dst[i*cols*size : (i+1)*cols*size]
				clear(row[copy(row, src[i*stride:i*stride+n]):])
			}
		},
		PackCols: gemm.For(asm.Portable, typ).PackCols,
	}
	if typ == arena.Float32 {
		s.BFloat16, s.Float16 = gemm.RoundToFloat32(half.At(asm.Portable, arena.BFloat16)), gemm.RoundToFloat32(half.At(asm.Portable, arena.Float16))
	}
	return s
}

// widePairs is the same for pairs of bfloat16, which only few processors multiply.
func widePairs() *gemm.Kernels {
	s := wideISA[float32](arena.Float32, 32, 8)
	s.Name, s.Float32, s.Float16 = "widePairs", gemm.For(asm.Portable, arena.Float32), nil
	s.Tiles = make([]func(*gemm.Tile), 15)
	for i := range s.Tiles {
		s.Tiles[i] = func(t *gemm.Tile) {
			for onePairTile(t); t.More > 0; t.More-- {
				t.A, t.C = t.A[t.Rows*t.RowA:], t.C[t.Rows*t.RowC:]
				onePairTile(t)
			}
		}
	}
	s.HalfTiles = s.Tiles
	s.BFloat16 = asmtest.PairRounding()
	return s
}

// onePairTile computes a tile of which elements of A and B are pairs.
func onePairTile(t *gemm.Tile) {
	a, b, c, bias := asm.View[uint16](t.A), asm.View[uint16](t.B), asm.View[float32](t.C), asm.View[float32](t.Bias)
	for i := range t.Rows {
		for j := range t.N {
			var s float32
			for k := range t.K {
				for half := range 2 {
					s += float32(float16.FromBFloat16(a[(i*t.RowA+k*t.StepA)/2+half]) * float16.FromBFloat16(b[k*t.StepB/2+2*j+half]))
				}
			}
			at := &c[i*t.RowC/4+j]
			if t.Flags&gemm.FlagAdd != 0 {
				s += *at
			}
			if t.Flags&gemm.FlagBias != 0 {
				s += bias[j]
			}
			if t.Flags&gemm.FlagRelu != 0 && s < 0 {
				s = 0
			}
			*at = s
		}
	}
}

// wideTile is a kernel for tiles of any size.
func wideTile[T float](t *gemm.Tile) {
	for oneWideTile[T](t); t.More > 0; t.More-- {
		t.A, t.C = t.A[t.Rows*t.RowA:], t.C[t.Rows*t.RowC:]
		oneWideTile[T](t)
	}
}

func oneWideTile[T float](t *gemm.Tile) {
	size := asm.SizeOf[T]()
	a, b, c, bias := asm.View[T](t.A), asm.View[T](t.B), asm.View[T](t.C), asm.View[T](t.Bias)
	for i := range t.Rows {
		for j := range t.N {
			var s T
			for k := range t.K {
				s += T(a[(i*t.RowA+k*t.StepA)/size] * b[k*t.StepB/size+j])
			}
			at := &c[i*t.RowC/size+j]
			if t.Flags&gemm.FlagAdd != 0 {
				s += *at
			}
			if t.Flags&gemm.FlagBias != 0 {
				s += bias[j]
			}
			if t.Flags&gemm.FlagRelu != 0 && s < 0 {
				s = 0
			}
			*at = s
		}
	}
}
