package cuda

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// bindWhere prepares a choice, element by element over operands that broadcast.
func bindWhere(b *binding) error {
	y := b.Out[0]
	n := int64(y.Shape.Elems())
	if n == 0 {
		return nil
	}
	var operands []operand
	for _, x := range b.In {
		operands = append(operands, operand{x.Type, 0, spread(x.Shape, y.Shape)})
	}
	dims, all := collapse(y.Shape, append(operands, contiguous(y.Spec)))
	b.launchText(whereText(dims, all), "where", strided(b.props, n, blockThreads), line(blockThreads), 0,
		b.in(0), b.in(1), b.in(2), b.out(0), n)
	return nil
}

// whereText returns the kernel "where": pointers to the condition, the two operands and the result, and
// the number of elements. operands are these four.
func whereText(dims kernels.Shape, operands []operand) string {
	w := newWriter()
	cond, a, other, y := w.param("cond", true), w.param("a", true), w.param("b", true), w.param("y", true)
	end := w.param("n", false)
	i, all := w.thread()
	w.loop(i, end, all, func() {
		at := w.offsets(i, dims, operands)
		t, c := operands[3].t, operands[0].t
		v := w.raw(c, w.element(cond, at[0], c.Size()))
		x, z := w.raw(t, w.element(a, at[1], t.Size())), w.raw(t, w.element(other, at[2], t.Size()))
		kind, ptx := stored(t)
		p, out := w.register("p"), w.register(kind)
		// Not equal, or unordered: NaN chooses a.
		n := floatKindOf(c)
		w.line("setp.neu.%s %s, %s, %s;", n.ptx, p, v, n.literal(0))
		choose := ptx
		if t == arena.Uint8 { // in a register of 16 bits
			choose = "b16"
		}
		w.line("selp.%s %s, %s, %s, %s;", choose, out, x, z, p)
		w.line("st.global.%s [%s], %s;", ptx, w.element(y, at[3], t.Size()), out)
	})
	return w.module("where")
}
