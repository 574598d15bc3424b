package gemm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// The Go twins of the assembly, in the order of its sums.

var portable = []*Kernels{
	goKernels[float32](arena.Float32),
	goKernels[float64](arena.Float64),
}

// Rows and columns of a tile.
const (
	goRows = 3
	goCols = 3
)

// goKernels returns the portable kernels for T, whose DType is t.
func goKernels[T asm.Float](t arena.DType) *Kernels {
	f := goTile[T]
	s := &Kernels{
		Name: "go", Type: t, Rows: goRows, Cols: goCols, Lanes: goCols,
		Tiles:    []func(*Tile){nil, f, f, f},
		PackRows: goPackRows[T], PackCols: goPackCols[T],
	}
	if t == arena.Float32 {
		s.BFloat16, s.Float16 = RoundToFloat32(half.At(asm.Portable, arena.BFloat16)), RoundToFloat32(half.At(asm.Portable, arena.Float16))
	}
	return s
}

// goTile computes 1+More tiles of up to 3 x 3, one below the other.
func goTile[T asm.Float](t *Tile) {
	for goOneTile[T](t); t.More > 0; t.More-- {
		t.A, t.C = t.A[t.Rows*t.RowA:], t.C[t.Rows*t.RowC:]
		goOneTile[T](t)
	}
}

// goOneTile computes one tile.
func goOneTile[T asm.Float](t *Tile) {
	var sum [goRows * goCols]T
	size := asm.SizeOf[T]()
	a, b, c := asm.View[T](t.A), asm.View[T](t.B), asm.View[T](t.C)
	rowC, last := t.RowC/size, t.Rows-1
	goSums(&sum, a, a[min(1, last)*t.RowA/size:], a[last*t.RowA/size:], b, t.K, t.StepA/size, t.StepB/size)
	bias := asm.View[T](t.Bias)
	for i := range t.Rows {
		row := c[i*rowC : i*rowC+t.N]
		for j, s := range sum[i*goCols : i*goCols+t.N] {
			if t.Flags&FlagAdd != 0 {
				s += row[j]
			}
			if t.Flags&FlagBias != 0 {
				s += bias[j]
			}
			if t.Flags&FlagRelu != 0 && s < 0 {
				s = 0
			}
			row[j] = s
		}
	}
}

// goSums multiplies three rows of A, some of which may be the same, with three columns of B: nine
// sums and their operands fill 16 registers. The conversions forbid the compiler to fuse
// multiplication and addition.
func goSums[T asm.Float](sum *[goRows * goCols]T, a0, a1, a2, b []T, k, stepA, stepB int) {
	var s00, s01, s02, s10, s11, s12, s20, s21, s22 T
	at, bt := 0, 0
	for range k {
		v := b[bt : bt+3 : bt+3]
		x := a0[at]
		s00 += T(x * v[0])
		s01 += T(x * v[1])
		s02 += T(x * v[2])
		y := a1[at]
		s10 += T(y * v[0])
		s11 += T(y * v[1])
		s12 += T(y * v[2])
		z := a2[at]
		s20 += T(z * v[0])
		s21 += T(z * v[1])
		s22 += T(z * v[2])
		at += stepA
		bt += stepB
	}
	*sum = [goRows * goCols]T{s00, s01, s02, s10, s11, s12, s20, s21, s22}
}

// goPackRows is Kernels.PackRows.
func goPackRows[T asm.Float](dst, src []byte, k, stride, n int) {
	size := asm.SizeOf[T]()
	d, s := asm.View[T](dst), asm.View[T](src)
	n, stride = n/size, stride/size
	for i := range k {
		row := d[i*goCols : (i+1)*goCols]
		clear(row[copy(row, s[i*stride:i*stride+n]):])
	}
}

// goPackCols is Kernels.PackCols.
func goPackCols[T asm.Float](dst, src []byte, k, stride, n, pitch int) {
	size := asm.SizeOf[T]()
	d, s := asm.View[T](dst), asm.View[T](src)
	stride, pitch = stride/size, pitch/size
	for j := range n {
		for i, v := range s[j*stride : j*stride+k] {
			d[i*pitch+j] = v
		}
	}
}
