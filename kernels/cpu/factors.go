package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// rounds returns k, the kernel of a product, also for factors that are rounded to 16 bits.
func rounds(k kernel) kernel {
	return kernel{
		bind: func(b *binding) (func(), error) {
			to := kernels.OperandsOf(b.Attrs)
			if to == 0 {
				return k.bind(b)
			}
			w, inner := kernels.Widen(b.Attrs, b.In, b.Work), *b
			inner.Attrs, inner.In, inner.Work = w.Attrs, w.In, w.Work
			run, err := k.bind(&inner)
			if err != nil || run == nil {
				return nil, err
			}
			left, right := b.round(to, b.In[0], w.In[0]), b.round(to, b.In[1], w.In[1])
			return func() { left(); right(); run() }, nil
		},
		work: func(d *Device, attrs any, in, out []kernels.Spec) int64 {
			var copies int64
			if kernels.OperandsOf(attrs) != 0 {
				attrs, in, copies = kernels.WidenedSpecs(attrs, in)
			}
			return copies + k.work(d, attrs, in, out)
		},
	}
}

// round returns a launch that writes from, a float32 or of type to, in float32, rounded to what to can hold.
func (b *binding) round(to arena.DType, from, dst kernels.Operand) func() {
	encode, decode := kernels.ToFloat16, kernels.FromFloat16
	if to == arena.Bfloat16 {
		encode, decode = kernels.ToBfloat16, kernels.FromBfloat16
	}
	y := view[float32](b.bytes(dst))
	if from.Type == to {
		x := view[uint16](b.bytes(from))
		return b.over(len(y), cheapGrain/4, func(lo, hi, _ int) {
			for i, h := range x[lo:hi] {
				y[lo+i] = decode(h)
			}
		})
	}
	x := view[float32](b.bytes(from))
	return b.over(len(y), cheapGrain/4, func(lo, hi, _ int) {
		for i, v := range x[lo:hi] {
			y[lo+i] = decode(encode(v))
		}
	})
}
