package conv

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// SumBytes is the size of the lanes of one sum, whatever the width of vectors.
const SumBytes = 64

// A Depthwise is the arguments of a function that convolves each channel with its own kernel, or
// adds the products of pixels and dy to the sums that are the gradient of these kernels. The
// assembly reads the fields at fixed offsets.
//
//	convolution  Dst[c][pixel] = Σ_tap x[c][pixel+tap]·W[c][tap]    Pitch bytes from channel to channel of Dst
//	gradient     Dst[c][tap][lane] += x[c][pixel+tap]·W[c][pixel]   SumBytes from tap to tap of Dst; W is dy
type Depthwise struct {
	Patch
	W     []byte
	StepW int // bytes from channel to channel of W
	N     int // pixels
}

// goDepthwise is the Go twin, for elements of size bytes that lie step elements apart.
func goDepthwise[T asm.Float](t *Depthwise, size, step int, weights bool) {
	dst, src, w := asm.View[T](t.Dst), asm.View[T](t.Src), asm.View[T](t.W)
	for c := range t.Channels {
		row := dst[c*t.Pitch/size:]
		if !weights {
			clear(row[:t.N])
		}
		for tap, at := range t.Taps[:t.TapCount] {
			for s, start := range t.Segments[:t.SegCount] {
				first := c*t.Plane/size + int((start+at)/int64(size))
				for m := t.Masks[tap*MaxLanes+s]; m != 0; m &= m - 1 {
					lane := bits.TrailingZeros16(m)
					v := src[first+lane*step]
					if weights {
						dst[(c*t.TapCount+tap)*SumBytes/size+lane] += v * w[c*t.StepW/size+lane]
					} else {
						row[lane] += v * w[c*t.StepW/size+tap]
					}
				}
			}
		}
	}
}
