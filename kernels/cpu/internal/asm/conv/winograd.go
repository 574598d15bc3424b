package conv

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// WinogradPlaces is the number of elements of a transformed tile, 4x4. Each is a place of its own
// in the products of matrices.
const WinogradPlaces = 16

// A WinogradInput is the arguments of the input transform Bᵀ·d·B: for each channel it transforms a
// panel of tiles, packed in 16 rows, to one row at each of the 16 places. The assembly reads the
// fields of this and the next two structs at fixed offsets.
type WinogradInput struct {
	Src      []byte // packed pixels; rows are ordered by channel, then place
	Dst      []byte // the first place; rows are ordered by channel
	Plane    int    // bytes from place to place of Dst
	Channels int
	Row      int // bytes of a row, for the Go twin
}

// A WinogradWeight is the arguments of the weight transform G·g·Gᵀ of one vector of kernels of 3x3.
type WinogradWeight struct {
	Src   []byte  // by tap as stored: a vector with that tap of each kernel
	Taps  []int64 // bytes from Src to each tap of the convolution
	Dst   []byte  // at the first place
	Plane int     // bytes from place to place of Dst
	N     int     // kernels
}

// A WinogradOutput is the arguments of the output transform Aᵀ·m·A of one vector of tiles to 2x2
// pixels each, with an epilogue. The tiles are cut into segments of tiles in one row of an image.
type WinogradOutput struct {
	M    []byte // products at the first place, of the first row
	Dst  []byte // the first row's plane, of the first image
	Bias []byte // of the first row
	// By segment: bytes from Dst to the upper left pixel of the tile that would be in lane 0.
	Segments []int64
	Masks    []uint32 // [segments][2]: the pixels of the upper and the lower row that exist
	SegCount int      // at least 1
	Rows     int      // at least 1
	RowM     int      // bytes from row to row of M
	PlaneM   int      // bytes from place to place of M
	RowDst   int      // bytes from plane to plane of Dst
	Width    int      // bytes of a row of the image
	Flags    int      // gemm.FlagBias, gemm.FlagRelu
}

// goWinoInput is the Go twin of the input transform.
func goWinoInput[T asm.Float](w *WinogradInput) {
	size := asm.SizeOf[T]()
	src, dst, plane, cols := asm.View[T](w.Src), asm.View[T](w.Dst), w.Plane/size, w.Row/size
	for c := range w.Channels {
		for lane := range cols {
			var d [4][4]T
			at := c*WinogradPlaces*cols + lane
			for i := range WinogradPlaces {
				d[i/4][i%4] = src[at+i*cols]
			}
			winoTile(&d, dst[c*cols+lane:], plane)
		}
	}
}

// goWinoWeight is the Go twin of the weight transform.
func goWinoWeight[T asm.Float](w *WinogradWeight) {
	size := asm.SizeOf[T]()
	src, dst, plane := asm.View[T](w.Src), asm.View[T](w.Dst), w.Plane/size
	for lane := range w.N {
		var u [4][3]T
		for j := range 3 {
			g := func(i int) T { return src[lane+int(w.Taps[3*i+j])/size] }
			u[0][j], u[1][j], u[2][j], u[3][j] = thirds(g(0), g(1), g(2))
		}
		for i := range u {
			a, b, c, d := thirds(u[i][0], u[i][1], u[i][2])
			dst[lane+(4*i)*plane], dst[lane+(4*i+1)*plane] = a, b
			dst[lane+(4*i+2)*plane], dst[lane+(4*i+3)*plane] = c, d
		}
	}
}

// thirds returns a column of G·g for a column (a, b, c) of g.
func thirds[T asm.Float](a, b, c T) (_, _, _, _ T) {
	t := a + c
	return a, (t + b) / 2, (t - b) / 2, c
}

// goWinoOutput is the Go twin of the output transform.
func goWinoOutput[T asm.Float](w *WinogradOutput) {
	size := asm.SizeOf[T]()
	m, dst, bias, plane := asm.View[T](w.M), asm.View[T](w.Dst), asm.View[T](w.Bias), w.PlaneM/size
	for r := range w.Rows {
		for seg, start := range w.Segments[:w.SegCount] {
			for i := range 2 {
				row := (r*w.RowDst + int(start) + i*w.Width) / size
				for mask := w.Masks[2*seg+i]; mask != 0; mask &= mask - 1 {
					at := bits.TrailingZeros32(mask)
					var s [4]T
					for j := range s {
						k := r*w.RowM/size + at/2 + j*plane
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
					if w.Flags&gemm.FlagBias != 0 {
						v += bias[r]
					}
					if w.Flags&gemm.FlagRelu != 0 && v < 0 {
						v = 0
					}
					dst[row+at] = v
				}
			}
		}
	}
}
