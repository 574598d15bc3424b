// Package transpose transposes matrices of words of 1, 4 or 8 bytes.
//
// zz_transpose_amd64.s (AVX2) is written by internal/gen/transpose and transposes squares in
// registers; [Portable] is its Go twin, for matrices of any size.
package transpose

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// Portable sets dst[r*rowStride+c] to src[r+c*step] for r < rows, c < cols. Strides are in
// elements. It reads four rows of src and writes four neighbours of dst at a time.
func Portable[T asm.Word](dst, src []T, rows, cols, rowStride, step int) {
	c := 0
	for ; c+4 <= cols; c += 4 {
		s0, s1 := src[c*step:][:rows], src[(c+1)*step:][:rows]
		s2, s3 := src[(c+2)*step:][:rows], src[(c+3)*step:][:rows]
		at := c
		for i := range s0 {
			d := dst[at : at+4 : at+4]
			d[0], d[1], d[2], d[3] = s0[i], s1[i], s2[i], s3[i]
			at += rowStride
		}
	}
	for ; c < cols; c++ {
		at := c
		for _, v := range src[c*step:][:rows] {
			dst[at] = v
			at += rowStride
		}
	}
}
