package cuda

import "github.com/evenkeel/evenkeel/arena"

// bindTruncate prepares a conversion of floats to int64.
func bindTruncate(b *binding) error {
	n := int64(b.Out[0].Shape.Elems())
	b.launchText(truncateText(b.In[0].Type), "truncate", strided(b.props, n, blockThreads), line(blockThreads), 0,
		b.in(0), b.out(0), n)
	return nil
}

// truncateText returns the kernel "truncate": pointers to the input and to the output, and the number
// of elements. The conversion saturates; NaN, for which a GPU gives the smallest int64 in float64,
// becomes 0.
func truncateText(from arena.DType) string {
	n := floatKindOf(from)
	w := newWriter()
	x, y, end := w.param("x", true), w.param("y", true), w.param("n", false)
	i, all := w.thread()
	w.loop(i, end, all, func() {
		v := w.load(n, from, x, i)
		out := w.register("l")
		w.line("cvt.rzi.s64.%s %s, %s;", n.ptx, out, w.choose(n, "nan", v, v, n.literal(0), v))
		w.line("st.global.b64 [%s], %s;", w.element(y, i, 8), out)
	})
	return w.module("truncate")
}
