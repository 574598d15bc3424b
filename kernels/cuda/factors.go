package cuda

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// rounds returns k, the kernel of a product, also for factors that are rounded to 16 bits.
func rounds(k kernel) kernel {
	return kernel{
		bind: func(b *binding) error {
			to := kernels.OperandsOf(b.Attrs)
			if to == 0 {
				return k.bind(b)
			}
			w, inner := kernels.Widen(b.Attrs, b.In, b.Work), *b
			inner.Attrs, inner.In, inner.Work = w.Attrs, w.In, w.Work
			for i := range 2 {
				n := int64(b.In[i].Shape.Elems())
				inner.launchText(roundText(b.In[i].Type, to), "round", strided(b.props, n, blockThreads), line(blockThreads), 0, b.in(i), inner.in(i), n)
			}
			err := k.bind(&inner)
			b.steps = inner.steps
			return err
		},
		work: func(p *properties, attrs any, in, out []kernels.Spec) int64 {
			var bytes int64
			if kernels.OperandsOf(attrs) != 0 {
				attrs, in, bytes = kernels.WidenedSpecs(attrs, in)
			}
			if k.work != nil {
				bytes += k.work(p, attrs, in, out)
			}
			return bytes
		},
	}
}

// roundText returns the kernel "round": pointers to the input, of type from, and to the output, float32 that type to can hold, and the number of elements.
func roundText(from, to arena.DType) string {
	w := newWriter()
	x, y, end := w.param("x", true), w.param("y", true), w.param("n", false)
	i, all := w.thread()
	w.loop(i, end, all, func() {
		v := w.load(single, from, x, i)
		if from != to {
			v = w.convert(single, to, w.half(to, v))
		}
		w.line("st.global.f32 [%s], %s;", w.element(y, i, 4), v)
	})
	return w.module("round")
}
