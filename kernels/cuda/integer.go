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
