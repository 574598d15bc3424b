package cuda

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// blockThreads is the number of threads of most kernels.
const blockThreads = 256

// operand is a tensor in the coordinates of a kernel: its type, its first element, and the elements
// from one index to the next.
type operand struct {
	t       arena.DType
	start   int
	strides []int
}

// rowMajor returns the strides of a contiguous tensor.
func rowMajor(s kernels.Shape) []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= s[i]
	}
	return st
}

// spread returns the strides of s broadcast to out: 0 along repeated dimensions.
func spread(s, out kernels.Shape) []int {
	st := make([]int, len(out))
	for i, own := range rowMajor(s) {
		if s[i] != 1 {
			st[len(out)-len(s)+i] = own
		}
	}
	return st
}

// collapse removes dimensions of 1 and merges dimensions over which all operands have one stride.
func collapse(dims kernels.Shape, operands []operand) (kernels.Shape, []operand) {
	var to kernels.Shape
	out := make([]operand, len(operands))
	for k, o := range operands {
		out[k] = operand{t: o.t, start: o.start}
	}
	for d, n := range dims {
		if n == 1 {
			continue
		}
		last := len(to) - 1
		even := last >= 0
		for k, o := range operands {
			even = even && out[k].strides[last] == o.strides[d]*n
		}
		if !even {
			to = append(to, n)
		} else {
			to[last] *= n
		}
		for k, o := range operands {
			if !even {
				out[k].strides = append(out[k].strides, o.strides[d])
			} else {
				out[k].strides[last] = o.strides[d]
			}
		}
	}
	return to, out
}

// offsets writes the offset of index i (64 bits) in each operand, in elements.
func (w *writer) offsets(i string, dims kernels.Shape, operands []operand) []string {
	at := make([]string, len(operands))
	index := make([]string, len(dims))
	rest := i
	small := dims.Elems() <= math.MaxInt32 // divisions of 32 bits are several times as fast
	if small && len(dims) > 1 {
		rest = w.register("r")
		w.line("cvt.u32.u64 %s, %s;", rest, i)
	}
	for d := len(dims) - 1; d >= 0; d-- {
		switch {
		case d == 0:
			index[d] = rest
		case small:
			index[d], rest = w.divide("r", "u32", rest, dims[d])
		default:
			index[d], rest = w.divide("l", "u64", rest, dims[d])
		}
		if small && len(dims) > 1 {
			wide := w.register("l")
			w.line("cvt.u64.u32 %s, %s;", wide, index[d])
			index[d] = wide
		}
	}
	for k, o := range operands {
		if o.start == 0 && len(dims) == 1 && o.strides[0] == 1 {
			at[k] = i
			continue
		}
		at[k] = w.register("l")
		w.line("mov.u64 %s, %d;", at[k], o.start)
		for d, st := range o.strides {
			if st != 0 {
				w.line("mad.lo.s64 %s, %s, %d, %s;", at[k], index[d], st, at[k])
			}
		}
	}
	return at
}

// divide returns remainder and quotient by a constant, which becomes a multiplication when the
// driver compiles it.
func (w *writer) divide(kind, ptx, i string, by int) (rem, quo string) {
	rem, quo = w.register(kind), w.register(kind)
	w.line("div.%s %s, %s, %d;", ptx, quo, i, by)
	w.line("rem.%s %s, %s, %d;", ptx, rem, i, by)
	return rem, quo
}

// thread writes the index of the thread in the grid, and the number of threads.
func (w *writer) thread() (index, all string) {
	a, b, c, d := w.register("r"), w.register("r"), w.register("r"), w.register("r")
	index, all = w.register("l"), w.register("l")
	w.line("mov.u32 %s, %%ctaid.x;", a)
	w.line("mov.u32 %s, %%ntid.x;", b)
	w.line("mov.u32 %s, %%tid.x;", c)
	w.line("mov.u32 %s, %%nctaid.x;", d)
	w.line("mul.wide.u32 %s, %s, %s;", index, a, b)
	wide := w.register("l")
	w.line("cvt.u64.u32 %s, %s;", wide, c)
	w.line("add.s64 %s, %s, %s;", index, index, wide)
	w.line("mul.wide.u32 %s, %s, %s;", all, d, b)
	return index, all
}

// loop writes a loop: body for i, from its value on, below end, in steps of by.
func (w *writer) loop(i, end, by string, body func()) {
	again, done := w.label(), w.label()
	p := w.register("p")
	w.line("setp.ge.s64 %s, %s, %s;", p, i, end)
	w.line("@%s bra %s;", p, done)
	w.mark(again)
	body()
	w.line("add.s64 %s, %s, %s;", i, i, by)
	w.line("setp.lt.s64 %s, %s, %s;", p, i, end)
	w.line("@%s bra %s;", p, again)
	w.mark(done)
}

// each is an elementwise pass: y = steps(x...) over dims. With move there are no steps, and bytes
// are copied.
type each struct {
	dims  kernels.Shape
	n     floatKind
	x     []operand
	y     operand
	steps []kernels.Step
	move  bool
}

// text returns the kernel "each": pointers to the inputs and to the output, and the number of elements.
func (e each) text() string {
	w := newWriter()
	bases := make([]string, len(e.x))
	for k := range e.x {
		bases[k] = w.param(fmt.Sprintf("x%d", k), true)
	}
	y, end := w.param("y", true), w.param("n", false)
	i, all := w.thread()
	w.loop(i, end, all, func() {
		at := w.offsets(i, e.dims, append(append([]operand(nil), e.x...), e.y))
		to := func() string { return w.element(y, at[len(e.x)], e.y.t.Size()) }
		if e.move {
			v := w.raw(e.y.t, w.element(bases[0], at[0], e.y.t.Size()))
			_, ptx := stored(e.y.t)
			w.line("st.global.%s [%s], %s;", ptx, to(), v)
			return
		}
		x := make([]string, len(e.x))
		for k, o := range e.x {
			x[k] = w.load(e.n, o.t, bases[k], at[k])
		}
		w.line("st.global.%s [%s], %s;", e.n.ptx, to(), w.steps(e.n, e.steps, x))
	})
	return w.module("each")
}

// wide returns the number of neighbouring elements that a thread handles at once: 16 bytes of
// floats if all operands are contiguous and aligned, else 1.
func (e each) wide(places []address, n int) int {
	if e.move || len(e.dims) > 1 {
		return 1
	}
	lanes := int(16 / e.y.t.Size())
	if n%lanes != 0 {
		return 1
	}
	for k, o := range append(append([]operand(nil), e.x...), e.y) {
		scalar := len(o.strides) == 0 || o.strides[0] == 0
		if scalar && k < len(e.x) {
			continue
		}
		if o.t != e.y.t || o.start != 0 || o.strides[0] != 1 || places[k]%16 != 0 {
			return 1
		}
	}
	return lanes
}

// wideText is text for contiguous operands: each thread loads several neighbours of an operand at
// once.
func (e each) wideText(lanes int) string {
	w := newWriter()
	bases := make([]string, len(e.x))
	for k := range e.x {
		bases[k] = w.param(fmt.Sprintf("x%d", k), true)
	}
	y, end := w.param("y", true), w.param("n", false)
	i, all := w.thread()
	fixed := make([]string, len(e.x)) // operands that are the same for all elements
	for k, o := range e.x {
		if len(o.strides) == 0 || o.strides[0] == 0 {
			fixed[k] = w.convert(e.n, o.t, w.raw(o.t, bases[k]))
		}
	}
	w.loop(i, end, all, func() {
		x := make([][]string, lanes)
		for l := range x {
			x[l] = append([]string(nil), fixed...)
		}
		for k := range e.x {
			if fixed[k] != "" {
				continue
			}
			for l := range x {
				x[l][k] = w.register(e.n.kind)
			}
			w.line("ld.global.v%d.%s {%s}, [%s];", lanes, e.n.ptx, column(x, k), w.element(bases[k], i, 16))
		}
		out := make([][]string, lanes)
		for l := range x {
			out[l] = []string{w.steps(e.n, e.steps, x[l])}
		}
		w.line("st.global.v%d.%s [%s], {%s};", lanes, e.n.ptx, w.element(y, i, 16), column(out, 0))
	})
	return w.module("each")
}

// column lists entry k of each row.
func column(rows [][]string, k int) string {
	s := ""
	for l, r := range rows {
		if l > 0 {
			s += ", "
		}
		s += r[k]
	}
	return s
}

// launchEach appends the pass.
func (b *binding) launchEach(e each, x []address, y address) {
	n := e.dims.Elems()
	dims, all := collapse(e.dims, append(append([]operand(nil), e.x...), e.y))
	if len(dims) == 0 {
		dims = kernels.Shape{1}
		for k := range all {
			all[k].strides = []int{0}
		}
	}
	e.dims, e.x, e.y = dims, all[:len(e.x)], all[len(e.x)]
	args := make([]any, 0, len(x)+2)
	for _, a := range x {
		args = append(args, a)
	}
	lanes := e.wide(append(append([]address(nil), x...), y), n)
	var text string
	if lanes > 1 {
		n /= lanes
		text = e.wideText(lanes)
	} else {
		text = e.text()
	}
	b.launchText(text, "each", strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		append(args, y, int64(n))...)
}

// bindElementwise prepares an operation that has Elem.
func bindElementwise(b *binding) error {
	s := kernels.Step{Op: b.Op, Attrs: b.Attrs, A: 0, B: len(b.In) - 1}
	if len(b.In) == 1 {
		s.B = -1
	}
	b.bindSteps([]kernels.Step{s})
	return nil
}

// bindChain prepares a chain.
func bindChain(b *binding) error {
	a := b.Attrs.(*kernels.ChainAttrs)
	if a.Reduce == nil {
		b.bindSteps(a.Steps)
		return nil
	}
	last, err := a.Last(kernels.Specs(b.In))
	if err != nil {
		return err
	}
	b.launchReduction(chainReduction(a, last.Shape, kernels.Specs(b.In), b.Out[0].Type), b.inputs(), b.out(0))
	return nil
}

// bindSteps prepares elementwise steps on operands that broadcast.
func (b *binding) bindSteps(steps []kernels.Step) {
	shape := b.Out[0].Shape
	e := each{dims: shape, n: floatKindOf(b.Out[0].Type), y: operand{b.Out[0].Type, 0, rowMajor(shape)}, steps: steps}
	for _, x := range b.In {
		e.x = append(e.x, operand{x.Type, 0, spread(x.Shape, shape)})
	}
	b.launchEach(e, b.inputs(), b.out(0))
}

// inputs returns the addresses of all inputs.
func (b *binding) inputs() []address {
	at := make([]address, len(b.In))
	for k := range b.In {
		at[k] = b.in(k)
	}
	return at
}
