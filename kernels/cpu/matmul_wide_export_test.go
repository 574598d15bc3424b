package cpu

import "github.com/evenkeel/evenkeel/arena"

// wide are kernels in plain Go with the sizes of the AVX-512 ones, so that the cutting, packing and edges for those
// sizes are tested on every processor.
var wide = []*isa{wideISA[float32](arena.Float32, 32, 8), wideISA[float64](arena.Float64, 16, 4)}

func wideISA[T float](typ arena.DType, cols, lanes int) *isa {
	tiles := make([]func(*tile), 15)
	for i := range tiles {
		tiles[i] = wideTile[T]
	}
	return &isa{
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
