package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// The portable matmul kernels. They are what the assembly computes, but for its fused multiply-adds.

var portable = []*isa{
	goISA[float32](arena.Float32),
	goISA[float64](arena.Float64),
}

const (
	goRows = 3
	goCols = 3
)

func goISA[T float](t arena.DType) *isa {
	f := goTile[T]
	s := &isa{
		name: "go", typ: t, rows: goRows, cols: goCols, lanes: goCols,
		tiles:    []func(*tile){nil, f, f, f},
		packRows: goPackRows[T], packCols: goPackCols[T],
	}
	if t == arena.Float32 {
		s.bfloat16, s.float16 = floats(half.At(asm.Portable, arena.Bfloat16)), floats(half.At(asm.Portable, arena.Float16))
	}
	return s
}

// goTile computes tiles of up to 3 x 3, one below the other.
func goTile[T float](t *tile) {
	for goOneTile[T](t); t.more > 0; t.more-- {
		t.a, t.c = t.a[t.rows*t.rowA:], t.c[t.rows*t.rowC:]
		goOneTile[T](t)
	}
}

func goOneTile[T float](t *tile) {
	var sum [goRows * goCols]T
	size := asm.SizeOf[T]()
	a, b, c := asm.View[T](t.a), asm.View[T](t.b), asm.View[T](t.c)
	rowC, last := t.rowC/size, t.rows-1
	goSums(&sum, a, a[min(1, last)*t.rowA/size:], a[last*t.rowA/size:], b, t.k, t.stepA/size, t.stepB/size)
	bias := asm.View[T](t.bias)
	for i := range t.rows {
		row := c[i*rowC : i*rowC+t.n]
		for j, s := range sum[i*goCols : i*goCols+t.n] {
			if t.flags&flagAdd != 0 {
				s += row[j]
			}
			if t.flags&flagBias != 0 {
				s += bias[j]
			}
			if t.flags&flagRelu != 0 && s < 0 {
				s = 0
			}
			row[j] = s
		}
	}
}

// goSums multiplies three rows of A, some of which may be the same, with three columns of B: 9 sums, and what they need, are
// as many as 16 registers hold. The conversions keep compilers from fusing.
func goSums[T float](sum *[goRows * goCols]T, a0, a1, a2, b []T, k, stepA, stepB int) {
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

func goPackRows[T float](dst, src []byte, k, stride, n int) {
	size := asm.SizeOf[T]()
	d, s := asm.View[T](dst), asm.View[T](src)
	n, stride = n/size, stride/size
	for i := range k {
		row := d[i*goCols : (i+1)*goCols]
		clear(row[copy(row, s[i*stride:i*stride+n]):])
	}
}

func goPackCols[T float](dst, src []byte, k, stride, n, pitch int) {
	size := asm.SizeOf[T]()
	d, s := asm.View[T](dst), asm.View[T](src)
	stride, pitch = stride/size, pitch/size
	for j := range n {
		for i, v := range s[j*stride : j*stride+k] {
			d[i*pitch+j] = v
		}
	}
}
