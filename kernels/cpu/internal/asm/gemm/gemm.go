// Package gemm holds the inner kernels of matrix multiplication, C = A·B, for float32, float64 and
// pairs of bfloat16.
//
// The structure is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", ACM TOMS 34(3), 2008. A kernel computes one tile of C, whose sums stay in
// registers while it steps through k; its rows of A and its panel of B are packed first where they
// would be slow to read:
//
//	          panel of B: Cols columns
//	         ┌────┐
//	    K    │    │  StepB bytes from step to step
//	┌───────┐└────┘
//	│ A     │┌────┐
//	│ RowA  ││ C  │  Rows x N, RowC bytes from row to row
//	└───────┘└────┘
//
// zz_gemm_amd64.s (AVX2: tiles of 6x16 float32; AVX-512: 14x32; AVX512-BF16) is written by
// internal/gen/gemm; portable.go holds the Go twins. Every sum is one chain of fused multiply-adds
// in the order of k, so tiles of all sizes and both widths give the same bits. The Go twins round
// after each multiplication.
package gemm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Kernels are the matrix kernels of one instruction level for one element type. A nil function is
// not available. The functions of one value are used together: they agree on Rows, Cols and Lanes.
type Kernels struct {
	Name  string // for tests and benchmarks
	Type  arena.DType
	Rows  int // most rows of a tile
	Cols  int // columns of a tile, and of a packed panel of B
	Lanes int // rows that PackCols transposes at once: a divisor of Cols

	// Tiles[r] computes a tile of r rows and up to Cols columns, HalfTiles[r] one of up to Cols/2
	// columns.
	Tiles, HalfTiles []func(t *Tile)
	// PacksB says that Tiles can store the panel of B, of Cols columns, at Tile.Panel as they read it.
	PacksB bool
	// PackRows copies k rows of n bytes, stride bytes apart, to rows of Cols elements, filled up
	// with zeros.
	PackRows func(dst, src []byte, k, stride, n int)
	// PackCols transposes n <= Lanes rows of k elements, stride bytes apart, to k rows of Lanes
	// elements, pitch bytes apart. It may write any value to lanes from n on.
	PackCols func(dst, src []byte, k, stride, n, pitch int)
	// Prefetch is asm.Prefetch, nil in plain Go.
	Prefetch func(src []byte, rows, stride, n int)
	// RowTiles compute one row, the widest first. B is not packed: with one row of A, each of its
	// elements is used once.
	RowTiles []RowTile
	// BFloat16 and Float16 pack operands that are rounded to that type. Nil: this value cannot
	// multiply such operands.
	BFloat16, Float16 *Rounding
	// Float32 is nil for kernels of single elements. For kernels whose elements of A and B are
	// pairs of bfloat16, it holds the kernels of the same level for float32.
	Float32 *Kernels
	// Dots multiplies row A with N <= 8 rows of B, StepB bytes apart, into neighbouring elements of
	// C. It reads FlagAdd only.
	Dots func(t *Tile)
}

// A RowTile computes a tile of one row and Cols columns, all of which exist.
type RowTile struct {
	Cols int
	Run  func(t *Tile)
}

// A Tile is the arguments of a tile kernel: Rows x N elements of C. The assembly reads the fields
// at fixed offsets.
type Tile struct {
	A, B, C []byte // from the tile's first element on
	Bias    []byte // from the tile's first column on
	K       int    // elements of A in a row: steps, or pairs of steps
	RowA    int    // bytes from row to row of A
	StepA   int    // bytes from step to step of A
	StepB   int    // bytes from step to step of B, of which Cols elements can be read
	RowC    int    // bytes from row to row of C
	N       int    // columns
	Flags   int    // FlagAdd, FlagBias, FlagRelu
	Rows    int    // rows
	// Further tiles of as many rows, each below the one before; the kernel counts them down.
	More int
	//lint:ignore U1000 the assembly keeps MXCSR here
	mxcsr [2]uint32 // as the kernel found it, and as it set it
	// Where a tile kernel that packs stores the panel of B. Nil: nowhere; otherwise More is 0.
	Panel []byte
	Kind  int // how kernels that read B unpacked convert it to float32
}

// How B is stored, for kernels that read it unpacked: RowTiles, Dots, and Tiles that pack.
const (
	KindFloat         = iota // in the type of the product
	kindRoundBFloat16        // float32, which the kernel rounds to bfloat16
	kindRoundFloat16         // float32, which the kernel rounds to float16
	kindWidenBFloat16        // bfloat16
	kindWidenFloat16         // float16
)

// The epilogue of a tile, in this order.
const (
	FlagAdd  = 1 << iota // add the old C
	FlagBias             // add the bias of the column
	FlagRelu             // max(0, ·)
)

// For returns the kernels of level l for t, nil for a type that has none.
func For(l asm.Level, t arena.DType) *Kernels {
	for _, s := range kernelsAt(l) {
		if s.Type == t {
			return s
		}
	}
	return nil
}

// Size returns the bytes of an element of A, B and C.
func (s *Kernels) Size() int { return int(s.Type.Size()) }

// Single returns the kernels for elements that are not pairs: s, or s.Float32.
func (s *Kernels) Single() *Kernels {
	if s.Float32 != nil {
		return s.Float32
	}
	return s
}

// WithDots returns s.Single() where it has Dots, otherwise nil.
func (s *Kernels) WithDots() *Kernels {
	if s = s.Single(); s.Dots == nil {
		return nil
	}
	return s
}

// StepsPerElem returns how many steps of k one element of A and B holds: 2 for pairs, otherwise 1.
func (s *Kernels) StepsPerElem() int {
	if s.Float32 != nil {
		return 2
	}
	return 1
}

// Elems returns how many elements of A and B hold that many steps of k.
func (s *Kernels) Elems(steps int) int { return (steps + s.StepsPerElem() - 1) / s.StepsPerElem() }

// HasTile reports whether a tile kernel reads exactly n columns, or n is 0: then B can be read
// unpacked without reading past it.
func (s *Kernels) HasTile(n int) bool {
	return n == 0 || n == s.Cols || s.HalfTiles != nil && 2*n == s.Cols
}
