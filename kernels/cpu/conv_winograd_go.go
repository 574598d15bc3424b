package cpu

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// The portable transforms: what the assembly computes, in the same order.

// goWinoInput transforms pixels, one tile after another.
func goWinoInput[T float](w *winoInput) {
	size := asm.SizeOf[T]()
	src, dst, plane, cols := asm.View[T](w.src), asm.View[T](w.dst), w.plane/size, w.row/size
	for c := range w.channels {
		for lane := range cols {
			var d [4][4]T
			at := c*winoPlaces*cols + lane
			for j := range 4 {
				d0, d1, d2, d3 := src[at+j*cols], src[at+(4+j)*cols], src[at+(8+j)*cols], src[at+(12+j)*cols]
				d[0][j], d[1][j], d[2][j], d[3][j] = d0-d2, d1+d2, d2-d1, d1-d3
			}
			at = c*cols + lane
			for i := range d {
				r := &d[i]
				dst[at+(4*i)*plane] = r[0] - r[2]
				dst[at+(4*i+1)*plane] = r[1] + r[2]
				dst[at+(4*i+2)*plane] = r[2] - r[1]
				dst[at+(4*i+3)*plane] = r[1] - r[3]
			}
		}
	}
}

// goWinoWeight transforms kernels, one after another.
func goWinoWeight[T float](w *winoWeight) {
	size := asm.SizeOf[T]()
	src, dst, plane := asm.View[T](w.src), asm.View[T](w.dst), w.plane/size
	for lane, first := range w.lanes[:w.n] {
		var u [4][3]T
		for j := range 3 {
			g := func(i int) T { return src[int(first)+int(w.taps[3*i+j])/size] }
			u[0][j], u[1][j], u[2][j], u[3][j] = thirds(g(0), g(1), g(2))
		}
		for i := range u {
			a, b, c, d := thirds(u[i][0], u[i][1], u[i][2])
			dst[lane+(4*i)*plane], dst[lane+(4*i+1)*plane] = a, b
			dst[lane+(4*i+2)*plane], dst[lane+(4*i+3)*plane] = c, d
		}
	}
}

// thirds is a column of G·g.
func thirds[T float](a, b, c T) (_, _, _, _ T) {
	t := a + c
	return a, (t + b) / 2, (t - b) / 2, c
}

// goWinoOutput makes pixels, one tile after another.
func goWinoOutput[T float](w *winoOutput) {
	size := asm.SizeOf[T]()
	m, dst, bias, plane := asm.View[T](w.m), asm.View[T](w.dst), asm.View[T](w.bias), w.planeM/size
	for r := range w.rows {
		for seg, start := range w.segments[:w.segCount] {
			for i := range 2 {
				row := (r*w.rowDst + int(start) + i*w.width) / size
				for mask := w.masks[2*seg+i]; mask != 0; mask &= mask - 1 {
					at := bits.TrailingZeros32(mask)
					var s [4]T
					for j := range s {
						k := r*w.rowM/size + at/2 + j*plane
						if i == 0 {
							s[j] = m[k] + m[k+4*plane] + m[k+8*plane]
						} else {
							s[j] = m[k+4*plane] - m[k+8*plane] - m[k+12*plane]
						}
					}
					v := s[0] + s[1] + s[2]
					if at%2 == 1 {
						v = s[1] - s[2] - s[3]
					}
					if w.flags&gemm.FlagBias != 0 {
						v += bias[r]
					}
					if w.flags&gemm.FlagRelu != 0 && v < 0 {
						v = 0
					}
					dst[row+at] = v
				}
			}
		}
	}
}
