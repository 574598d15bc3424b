package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func bindEncode(b *binding) (func(), error) {
	x, y := in[float32](b, 0), view[uint16](b.bytes(b.Out[0]))
	to := kernels.ToFloat16
	if b.Out[0].Type == arena.Bfloat16 {
		to = kernels.ToBfloat16
	}
	return b.over(len(x), cheapGrain/4, func(lo, hi, _ int) {
		dst := y[lo:hi]
		for i, v := range x[lo:hi] {
			dst[i] = to(v)
		}
	}), nil
}
