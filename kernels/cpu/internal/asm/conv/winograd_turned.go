package conv

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// A WinogradTurned is the arguments of the output transform Aᵀ·m·A of products whose rows are tiles
// and whose columns are outputs: it makes the 2x2 pixels of each tile for one vector of outputs, with
// an epilogue. Each sum is that of [WinogradOutput].
type WinogradTurned struct {
	M    []byte // products at the first place, of the first tile
	Dst  []byte // a vector of outputs for each pixel
	Bias []byte // of the vector
	// By tile: bytes from Dst to its upper left, upper right, lower left and lower right pixel.
	Pixels []int64
	Tiles  int // at least 1
	RowM   int // bytes from tile to tile of M
	PlaneM int // bytes from place to place of M
	Flags  int // gemm.FlagBias, gemm.FlagRelu
}

// goWinoTurned returns the Go twin for vectors of that many outputs.
func goWinoTurned[T asm.Float](lanes int) func(w *WinogradTurned) {
	return func(w *WinogradTurned) {
		size := asm.SizeOf[T]()
		m, dst, bias, plane := asm.View[T](w.M), asm.View[T](w.Dst), asm.View[T](w.Bias), w.PlaneM/size
		for tile := range w.Tiles {
			for lane := range lanes {
				var s [2][4]T
				for j := range 4 {
					k := tile*w.RowM/size + lane + j*plane
					s[0][j] = m[k] + m[k+4*plane] + m[k+8*plane]
					s[1][j] = m[k+4*plane] - m[k+8*plane] - m[k+12*plane]
				}
				for i, at := range w.Pixels[4*tile : 4*tile+4] {
					r := &s[i/2]
					v := r[0] + r[1] + r[2]
					if i%2 == 1 {
						v = r[1] - r[2] - r[3]
					}
					if w.Flags&gemm.FlagBias != 0 {
						v += bias[lane]
					}
					if w.Flags&gemm.FlagRelu != 0 && v < 0 {
						v = 0
					}
					dst[int(at)/size+lane] = v
				}
			}
		}
	}
}
