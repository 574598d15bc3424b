package cpu

import "github.com/evenkeel/evenkeel/arena"

// The portable matmul kernels. They are what the assembly computes, but for its fused multiply-adds.

var portable = []*isa{
	goISA[float32](arena.Float32),
	goISA[float64](arena.Float64),
}

const (
	goRows = 4
	goCols = 4
)

func goISA[T float](t arena.DType) *isa {
	f := goTile[T]
	return &isa{
		name: "go", typ: t, rows: goRows, cols: goCols, lanes: goCols,
		tiles:    []func(*tile){nil, f, f, f, f},
		packRows: goPackRows[T], packCols: goPackCols[T],
	}
}

// goTile computes tiles of up to 4 x 4, one below the other.
func goTile[T float](t *tile) {
	for goOneTile[T](t); t.more > 0; t.more-- {
		t.a, t.c = t.a[t.rows*t.rowA:], t.c[t.rows*t.rowC:]
		goOneTile[T](t)
	}
}

func goOneTile[T float](t *tile) {
	var sum [goRows * goCols]T
	size := elemSize[T]()
	a, b, c := view[T](t.a), view[T](t.b), view[T](t.c)
	rowA, stepA, stepB, rowC := t.rowA/size, t.stepA/size, t.stepB/size, t.rowC/size
	if t.rows == goRows && t.n == goCols {
		goTile4x4(&sum, a, b, t.k, rowA, stepA, stepB)
	} else {
		for i := range t.rows {
			for j := range t.n {
				var s T
				for k := range t.k {
					s += T(a[i*rowA+k*stepA] * b[k*stepB+j])
				}
				sum[i*goCols+j] = s
			}
		}
	}
	bias := view[T](t.bias)
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

// goTile4x4 makes the sums of a full tile. The conversions keep compilers from fusing, so that full tiles and
// edges agree.
func goTile4x4[T float](sum *[16]T, a, b []T, k, rowA, stepA, stepB int) {
	var s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33 T
	at, bt := 0, 0
	for range k {
		v := b[bt : bt+4 : bt+4]
		b0, b1, b2, b3 := v[0], v[1], v[2], v[3]
		x := a[at]
		s00 += T(x * b0)
		s01 += T(x * b1)
		s02 += T(x * b2)
		s03 += T(x * b3)
		x = a[at+rowA]
		s10 += T(x * b0)
		s11 += T(x * b1)
		s12 += T(x * b2)
		s13 += T(x * b3)
		x = a[at+2*rowA]
		s20 += T(x * b0)
		s21 += T(x * b1)
		s22 += T(x * b2)
		s23 += T(x * b3)
		x = a[at+3*rowA]
		s30 += T(x * b0)
		s31 += T(x * b1)
		s32 += T(x * b2)
		s33 += T(x * b3)
		at += stepA
		bt += stepB
	}
	*sum = [16]T{s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33}
}

func goPackRows[T float](dst, src []byte, k, stride, n int) {
	size := elemSize[T]()
	d, s := view[T](dst), view[T](src)
	n, stride = n/size, stride/size
	for i := range k {
		row := d[i*goCols : (i+1)*goCols]
		clear(row[copy(row, s[i*stride:i*stride+n]):])
	}
}

func goPackCols[T float](dst, src []byte, k, stride, n, pitch int) {
	size := elemSize[T]()
	d, s := view[T](dst), view[T](src)
	stride, pitch = stride/size, pitch/size
	for j := range n {
		for i, v := range s[j*stride : j*stride+k] {
			d[i*pitch+j] = v
		}
	}
}

// elemSize is the bytes of a T.
func elemSize[T float]() int {
	var z T
	if _, ok := any(z).(float32); ok {
		return 4
	}
	return 8
}
