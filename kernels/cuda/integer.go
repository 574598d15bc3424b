package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// integerInstructions are the instructions of functions that have one.
var integerInstructions = map[kernels.IntegerFunc]string{
	kernels.IntegerAdd: "add.s64", kernels.IntegerSub: "sub.s64", kernels.IntegerMul: "mul.lo.s64",
	kernels.IntegerMax: "max.s64", kernels.IntegerMin: "min.s64",
}

// integerComparisons are the conditions of comparisons.
var integerComparisons = map[kernels.IntegerFunc]string{
	kernels.IntegerLess: "lt", kernels.IntegerLessEqual: "le", kernels.IntegerEqual: "eq", kernels.IntegerNotEqual: "ne",
}

// bindInteger prepares a function of integers, element by element over operands that broadcast.
func bindInteger(b *binding) error {
	y := b.Out[0]
	n := int64(y.Shape.Elems())
	if n == 0 {
		return nil
	}
	var operands []operand
	var args []any
	for k, x := range b.In {
		operands = append(operands, operand{x.Type, 0, spread(x.Shape, y.Shape)})
		args = append(args, b.in(k))
	}
	dims, all := collapse(y.Shape, append(operands, contiguous(y.Spec)))
	b.launchText(integerText(b.Attrs.(kernels.IntegerAttrs).Func, dims, all), "integer", strided(b.props, n, blockThreads), line(blockThreads), 0,
		append(args, b.out(0), n)...)
	return nil
}

// integerText returns the kernel "integer": pointers to the operands and to the result, and the number
// of elements. operands are all of these. Arithmetic is in 64 bits; the result gets the low ones.
func integerText(f kernels.IntegerFunc, dims kernels.Shape, operands []operand) string {
	w := newWriter()
	bases := make([]string, len(operands))
	for k := range operands {
		bases[k] = w.param(fmt.Sprintf("x%d", k), true)
	}
	end := w.param("n", false)
	i, all := w.thread()
	last := len(operands) - 1
	w.loop(i, end, all, func() {
		at := w.offsets(i, dims, operands)
		x := make([]string, last)
		for k, o := range operands[:last] {
			x[k] = w.widen(o.t, w.raw(o.t, w.element(bases[k], at[k], o.t.Size())))
		}
		y := x[0]
		switch f {
		case kernels.IntegerDiv:
			y = w.quotient(x[0], x[1])
		case kernels.IntegerPow:
			y = w.power(x[0], x[1])
		}
		if instruction, ok := integerInstructions[f]; ok {
			y = w.register("l")
			w.line("%s %s, %s, %s;", instruction, y, x[0], x[1])
		}
		if how, ok := integerComparisons[f]; ok {
			p := w.register("p")
			y = w.register("l")
			w.line("setp.%s.s64 %s, %s, %s;", how, p, x[0], x[1])
			w.line("selp.b64 %s, 1, 0, %s;", y, p)
		}
		t := operands[last].t
		w.storeLow(t, w.element(bases[last], at[last], t.Size()), y)
	})
	return w.module("integer")
}

// quotient returns a / b, 0 where b is 0. A division of the smallest integer by -1 overflows: -a is
// computed without one.
func (w *writer) quotient(a, b string) string {
	zero, minus := w.register("p"), w.register("p")
	by, y, negative := w.register("l"), w.register("l"), w.register("l")
	w.line("setp.eq.s64 %s, %s, 0;", zero, b)
	w.line("setp.eq.s64 %s, %s, -1;", minus, b)
	w.line("selp.b64 %s, 1, %s, %s;", by, b, zero)
	w.line("selp.b64 %s, 1, %s, %s;", by, by, minus)
	w.line("div.s64 %s, %s, %s;", y, a, by)
	w.line("neg.s64 %s, %s;", negative, a)
	w.line("selp.b64 %s, %s, %s, %s;", y, negative, y, minus)
	w.line("selp.b64 %s, 0, %s, %s;", y, y, zero)
	return y
}

// power returns a to the power of b, by squaring. An exponent below 0 gives 0, unless a is 1 or -1,
// where it counts as its lowest bit.
func (w *writer) power(a, b string) string {
	below, one, p := w.register("p"), w.register("p"), w.register("p")
	base, exponent, y, bit := w.register("l"), w.register("l"), w.register("l"), w.register("l")
	w.line("setp.lt.s64 %s, %s, 0;", below, b)
	w.line("setp.eq.s64 %s, %s, 1;", one, a)
	w.line("setp.eq.s64 %s, %s, -1;", p, a)
	w.line("or.pred %s, %s, %s;", one, one, p)
	w.line("and.b64 %s, %s, 1;", bit, b)
	w.line("selp.b64 %s, %s, %s, %s;", exponent, bit, b, below)
	// Of an exponent below 0, a base that is neither 1 nor -1 gives 0: y begins with 0.
	w.line("selp.b64 %s, 1, 0, %s;", y, one)
	w.line("selp.b64 %s, %s, 1, %s;", y, y, below)
	w.line("mov.b64 %s, %s;", base, a)
	again, done := w.label(), w.label()
	w.mark(again)
	w.line("setp.le.s64 %s, %s, 0;", p, exponent)
	w.line("@%s bra %s;", p, done)
	w.line("and.b64 %s, %s, 1;", bit, exponent)
	w.line("setp.eq.s64 %s, %s, 1;", p, bit)
	w.line("selp.b64 %s, %s, 1, %s;", bit, base, p)
	w.line("mul.lo.s64 %s, %s, %s;", y, y, bit)
	w.line("mul.lo.s64 %s, %s, %s;", base, base, base)
	w.line("shr.s64 %s, %s, 1;", exponent, exponent)
	w.line("bra %s;", again)
	w.mark(done)
	return y
}

// widen returns a loaded integer of type t in 64 bits.
func (w *writer) widen(t arena.DType, v string) string {
	wide := w.register("l")
	switch t {
	case arena.Uint8:
		w.line("cvt.u64.u16 %s, %s;", wide, v)
	case arena.Int32:
		w.line("cvt.s64.s32 %s, %s;", wide, v)
	default:
		return v
	}
	return wide
}

// storeLow stores the low bits of v as an integer of type t.
func (w *writer) storeLow(t arena.DType, at, v string) {
	kind, ptx := stored(t)
	low := v
	switch t {
	case arena.Uint8:
		low = w.register(kind)
		w.line("cvt.u16.u64 %s, %s;", low, v)
	case arena.Int32:
		low = w.register(kind)
		w.line("cvt.u32.u64 %s, %s;", low, v)
	}
	w.line("st.global.%s [%s], %s;", ptx, at, low)
}
