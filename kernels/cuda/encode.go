package cuda

import (
	"github.com/evenkeel/evenkeel/arena"
)

// bindEncode prepares the rounding of numbers to 16 bits.
func bindEncode(b *binding) error {
	n := int64(b.Out[0].Shape.Elems())
	b.launchText(encodeText(b.Out[0].Type), "encode", strided(b.props, n, blockThreads), line(blockThreads), 0,
		b.in(0), b.out(0), n)
	return nil
}

// encodeText returns the kernel "encode": pointers to the input and to the output, and the number
// of elements.
func encodeText(to arena.DType) string {
	w := newWriter()
	x, y, end := w.param("x", true), w.param("y", true), w.param("n", false)
	i, all := w.thread()
	w.loop(i, end, all, func() {
		v := w.load(single, arena.Float32, x, i)
		h := w.register("h")
		if to == arena.Float16 {
			w.line("cvt.rn.f16.f32 %s, %s;", h, v)
		} else {
			w.bfloat(h, v)
		}
		w.line("st.global.b16 [%s], %s;", w.element(y, i, 2), h)
	})
	return w.module("encode")
}

// bfloat writes the bfloat16 nearest to v into h, in integers: GPUs before sm_80 have no
// instruction for it. As float16.ToBFloat16.
func (w *writer) bfloat(h, v string) {
	bits, odd, quiet, p, low := w.register("r"), w.register("r"), w.register("r"), w.register("p"), w.register("h")
	w.line("mov.b32 %s, %s;", bits, v)
	w.line("shr.u32 %s, %s, 16;", odd, bits)
	w.line("and.b32 %s, %s, 1;", odd, odd)
	w.line("or.b32 %s, %s, 0x400000;", quiet, bits)
	w.line("add.u32 %s, %s, 0x7fff;", bits, bits)
	w.line("add.u32 %s, %s, %s;", bits, bits, odd)
	w.line("setp.nan.f32 %s, %s, %s;", p, v, v)
	w.line("selp.b32 %s, %s, %s, %s;", bits, quiet, bits, p)
	w.line("mov.b32 {%s, %s}, %s;", low, h, bits)
}
