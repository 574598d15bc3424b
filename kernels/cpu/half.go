package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A convertFunc converts rows of n elements that lie stride bytes apart to rows pitch bytes apart.
type convertFunc func(dst, src []byte, rows, stride, n, pitch int)

// conversions are the functions of a level for one type of 16 bits.
type conversions struct {
	widen  convertFunc // to float32
	round  convertFunc // float32 to what the type holds, in float32
	encode convertFunc // float32 to the type
}

// halfAt returns the conversions of a level for t.
func halfAt(l level, t arena.DType) *conversions {
	if t == arena.Bfloat16 {
		return bfloat16At(l)
	}
	return float16At(l)
}

// The portable functions. Those of bfloat16 that products need call what the compiler inlines, which takes a fifth to a third of the time.
var (
	goBfloat16 = &conversions{
		widen: func(dst, src []byte, rows, stride, n, pitch int) {
			for r := range rows {
				d := view[float32](dst[r*pitch:])[:n]
				for i, v := range view[uint16](src[r*stride:])[:n] {
					d[i] = numeric.FromBFloat16(v)
				}
			}
		},
		round: func(dst, src []byte, rows, stride, n, pitch int) {
			for r := range rows {
				d := view[float32](dst[r*pitch:])[:n]
				for i, v := range view[float32](src[r*stride:])[:n] {
					d[i] = numeric.FromBFloat16(numeric.ToBFloat16(v))
				}
			}
		},
		encode: goConvert(numeric.ToBFloat16),
	}
	goFloat16 = &conversions{
		widen:  goConvert(numeric.FromFloat16),
		round:  goConvert(func(v float32) float32 { return numeric.FromFloat16(numeric.ToFloat16(v)) }),
		encode: goConvert(numeric.ToFloat16),
	}
)

func goConvert[S, D uint16 | float32](f func(S) D) convertFunc {
	return func(dst, src []byte, rows, stride, n, pitch int) {
		for r := range rows {
			d := view[D](dst[r*pitch:])[:n]
			for i, v := range view[S](src[r*stride:])[:n] {
				d[i] = f(v)
			}
		}
	}
}

// converted returns a launch that converts n elements, of from bytes each to such of to bytes.
func (b *binding) converted(f convertFunc, dst, src []byte, n, to, from int) func() {
	return b.over(n, cheapGrain/4, func(lo, hi, _ int) { f(dst[lo*to:hi*to], src[lo*from:hi*from], 1, 0, hi-lo, 0) })
}
