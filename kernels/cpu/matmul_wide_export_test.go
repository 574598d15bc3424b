package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// wide are kernels in plain Go with the sizes of the AVX-512 ones, so that the cutting, packing and edges for those
// sizes are tested on every processor.
var wide = []*isa{widePairs(), wideISA[float32](arena.Float32, 32, 8), wideISA[float64](arena.Float64, 16, 4)}

func wideISA[T float](typ arena.DType, cols, lanes int) *isa {
	tiles := make([]func(*tile), 15)
	for i := range tiles {
		tiles[i] = wideTile[T]
	}
	s := &isa{
		name: "wide", typ: typ, rows: 14, cols: cols, lanes: lanes, tiles: tiles, halves: tiles,
		packRows: func(dst, src []byte, k, stride, n int) {
			size := elemSize[T]()
			for i := range k {
				row := dst[i*cols*size : (i+1)*cols*size]
				clear(row[copy(row, src[i*stride:i*stride+n]):])
			}
		},
		packCols: goPackCols[T],
	}
	if typ == arena.Float32 {
		s.bfloat16, s.float16 = floats(goBfloat16), floats(goFloat16)
	}
	return s
}

// widePairs is the same for pairs of bfloat16, which only few processors multiply.
func widePairs() *isa {
	s := wideISA[float32](arena.Float32, 32, 8)
	s.name, s.plain, s.float16 = "widePairs", portable[0], nil
	s.tiles = make([]func(*tile), 15)
	for i := range s.tiles {
		s.tiles[i] = func(t *tile) {
			for onePairTile(t); t.more > 0; t.more-- {
				t.a, t.c = t.a[t.rows*t.rowA:], t.c[t.rows*t.rowC:]
				onePairTile(t)
			}
		}
	}
	s.halves = s.tiles
	round := func(dst, src []byte, n int) { goBfloat16.encode(dst, src, 1, 0, n, 0) }
	move := func(dst, src []byte, n int) { copy(dst[:2*n], src) }
	s.bfloat16 = &rounding{
		factor{size: 4, along: func(dst, src []byte, rows, stride, n, pitch int) {
			for r := range rows {
				round(dst[r*pitch:], src[r*stride:], n)
				clear(dst[r*pitch:][2*n : 2*(n+n&1)])
			}
		}, across: goPairsAcross(4, round)},
		factor{size: 2, along: pairsAlong16, across: goPairsAcross(2, move)},
	}
	return s
}

// goPairsAcross makes pairs of rows that encode rounds.
func goPairsAcross(size int, encode func(dst, src []byte, n int)) convertFunc {
	return func(dst, src []byte, rows, stride, n, pitch int) {
		both := make([]byte, 4*n) // the tests of allocations leave this variant out
		for r := 0; r < rows; r += 2 {
			clear(both)
			encode(both, src[r*stride:], n)
			if r+1 < rows {
				encode(both[2*n:], src[(r+1)*stride:], n)
			}
			from, to := view[uint16](both), view[uint16](dst[r/2*pitch:])
			for i := range n {
				to[2*i], to[2*i+1] = from[i], from[n+i]
			}
		}
	}
}

// onePairTile computes a tile of which elements of A and B are pairs.
func onePairTile(t *tile) {
	a, b, c, bias := view[uint16](t.a), view[uint16](t.b), view[float32](t.c), view[float32](t.bias)
	for i := range t.rows {
		for j := range t.n {
			var s float32
			for k := range t.k {
				for half := range 2 {
					s += float32(numeric.FromBFloat16(a[(i*t.rowA+k*t.stepA)/2+half]) * numeric.FromBFloat16(b[k*t.stepB/2+2*j+half]))
				}
			}
			at := &c[i*t.rowC/4+j]
			if t.flags&flagAdd != 0 {
				s += *at
			}
			if t.flags&flagBias != 0 {
				s += bias[j]
			}
			if t.flags&flagRelu != 0 && s < 0 {
				s = 0
			}
			*at = s
		}
	}
}

// wideTile is a kernel for tiles of any size.
func wideTile[T float](t *tile) {
	for oneWideTile[T](t); t.more > 0; t.more-- {
		t.a, t.c = t.a[t.rows*t.rowA:], t.c[t.rows*t.rowC:]
		oneWideTile[T](t)
	}
}

func oneWideTile[T float](t *tile) {
	size := elemSize[T]()
	a, b, c, bias := view[T](t.a), view[T](t.b), view[T](t.c), view[T](t.bias)
	for i := range t.rows {
		for j := range t.n {
			var s T
			for k := range t.k {
				s += T(a[(i*t.rowA+k*t.stepA)/size] * b[k*t.stepB/size+j])
			}
			at := &c[i*t.rowC/size+j]
			if t.flags&flagAdd != 0 {
				s += *at
			}
			if t.flags&flagBias != 0 {
				s += bias[j]
			}
			if t.flags&flagRelu != 0 && s < 0 {
				s = 0
			}
			*at = s
		}
	}
}
