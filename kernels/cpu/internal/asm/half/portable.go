package half

import (
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// The Go twins. Those of bfloat16 that products use call float16.FromBFloat16 directly: the
// compiler inlines it, which takes a fifth to a third of the time of a call through a function
// value.
var (
	portableBFloat16 = &Conversions{
		Widen: func(dst, src []byte, rows, stride, n, pitch int) {
			for r := range rows {
				d := asm.View[float32](dst[r*pitch:])[:n]
				for i, v := range asm.View[uint16](src[r*stride:])[:n] {
					d[i] = float16.FromBFloat16(v)
				}
			}
		},
		Round: func(dst, src []byte, rows, stride, n, pitch int) {
			for r := range rows {
				d := asm.View[float32](dst[r*pitch:])[:n]
				for i, v := range asm.View[float32](src[r*stride:])[:n] {
					d[i] = float16.FromBFloat16(float16.ToBFloat16(v))
				}
			}
		},
		Encode: goConvert(float16.ToBFloat16),
	}
	portableFloat16 = &Conversions{
		Widen:  goConvert(float16.FromFloat16),
		Round:  goConvert(func(v float32) float32 { return float16.FromFloat16(float16.ToFloat16(v)) }),
		Encode: goConvert(float16.ToFloat16),
	}
)

// goConvert returns a ConvertFunc that applies f to each element.
func goConvert[S, D uint16 | float32](f func(S) D) ConvertFunc {
	return func(dst, src []byte, rows, stride, n, pitch int) {
		for r := range rows {
			d := asm.View[D](dst[r*pitch:])[:n]
			for i, v := range asm.View[S](src[r*stride:])[:n] {
				d[i] = f(v)
			}
		}
	}
}
