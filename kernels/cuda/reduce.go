package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Reductions are computed in float64 and rounded once. Several threads share a result: each sums
// every n-th element, and a tree adds the sums. If there are few results, the elements are first
// cut into pieces, which a second kernel folds. So the order depends on shapes only. The operand
// may be the result of a chain of steps, computed as it is read.

// mostBlocks is the largest number of blocks for the pieces of one reduction. It limits the
// workspace.
const mostBlocks = 512

// perThread is the number of elements of a thread from which the elements are cut.
const perThread = 16

// reduction is y = fold(steps(x...)) over some dimensions of x.
type reduction struct {
	kept, gone kernels.Shape
	x          []operand // strides of kept, then those of gone
	n          floatKind // of the steps
	steps      []kernels.Step
	max        bool
	mean       bool // divide by the number of elements
	integer    bool // of integers, in 64 bits: no steps, no mean
	y          arena.DType
	plan
}

// plan distributes a reduction to threads: a block has lanes results, with workers threads for
// each.
type plan struct {
	lanes, workers  int
	adjacent        bool // neighbouring threads share a result. False: they have neighbouring results
	pieces, perCut  int
	outputs, count  int
	blocksOfOutputs int
}

// newReduction divides the dimensions of an operand into kept and reduced ones.
func newReduction(axes []int, shape kernels.Shape, x []operand) reduction {
	var r reduction
	kept, gone := make([]operand, len(x)), make([]operand, len(x))
	for k, o := range x {
		kept[k], gone[k] = operand{t: o.t, start: o.start}, operand{t: o.t}
	}
	lastGone := true
	for d, n := range shape {
		to, dims := kept, &r.kept
		if len(axes) == 0 || slices.Contains(axes, d) {
			to, dims = gone, &r.gone
		}
		*dims = append(*dims, n)
		for k, o := range x {
			to[k].strides = append(to[k].strides, o.strides[d])
		}
		if n > 1 {
			lastGone = dims == &r.gone
		}
	}
	r.kept, kept = collapse(r.kept, kept)
	r.gone, gone = collapse(r.gone, gone)
	for k := range x {
		r.x = append(r.x, operand{x[k].t, x[k].start, append(kept[k].strides, gone[k].strides...)})
	}
	r.plan = newPlan(r.kept.Elems(), r.gone.Elems(), lastGone)
	return r
}

func newPlan(outputs, count int, lastGone bool) plan {
	p := plan{outputs: outputs, count: count, adjacent: lastGone, pieces: 1}
	most := blockThreads
	if !lastGone {
		most = 8 // and 32 neighbouring results at least, which are read together
	}
	p.workers = 1
	for p.workers < most && p.workers < count {
		p.workers *= 2
	}
	p.lanes = blockThreads / p.workers
	p.blocksOfOutputs = (outputs + p.lanes - 1) / p.lanes
	if p.blocksOfOutputs > 0 {
		p.pieces = max(1, min((count+p.workers*perThread-1)/(p.workers*perThread), mostBlocks/p.blocksOfOutputs))
	}
	p.perCut = (count + p.pieces - 1) / p.pieces
	return p
}

// work returns the workspace in bytes: a float64 for each piece of each result. It is the same for
// all shapes with pieces: the more results, the fewer pieces.
func (p plan) work() int64 {
	if p.count <= p.workers*perThread {
		return 0
	}
	return mostBlocks * int64(p.lanes) * 8
}

// text returns the kernel "reduce": pointers to the inputs and to the output.
func (r reduction) text() string {
	w := newWriter()
	bases := make([]string, len(r.x))
	for k := range r.x {
		bases[k] = w.param(fmt.Sprintf("x%d", k), true)
	}
	y := w.param("y", true)
	w.declared.WriteString(fmt.Sprintf("\t.shared .align 8 .b8 part[%d];\n", blockThreads*8))

	tid, lane, worker := w.register("r"), w.register("r"), w.register("r")
	w.line("mov.u32 %s, %%tid.x;", tid)
	inner, outer, width := worker, lane, r.workers
	if !r.adjacent {
		inner, outer, width = lane, worker, r.lanes
	}
	w.line("and.b32 %s, %s, %d;", inner, tid, width-1)
	w.line("shr.u32 %s, %s, %d;", outer, tid, log2(width))

	block, piece := w.register("r"), w.register("r")
	w.line("mov.u32 %s, %%ctaid.x;", block)
	w.line("mov.u32 %s, %%ctaid.y;", piece)
	o, j, end := w.register("l"), w.register("l"), w.register("l")
	wideLane, wideWorker := w.register("l"), w.register("l")
	w.line("cvt.u64.u32 %s, %s;", wideLane, lane)
	w.line("cvt.u64.u32 %s, %s;", wideWorker, worker)
	w.line("mul.wide.u32 %s, %s, %d;", o, block, r.lanes)
	w.line("add.s64 %s, %s, %s;", o, o, wideLane)
	widePiece := w.register("l")
	w.line("cvt.u64.u32 %s, %s;", widePiece, piece)
	w.line("mul.lo.s64 %s, %s, %d;", j, widePiece, r.perCut)
	w.line("add.s64 %s, %s, %d;", end, j, r.perCut)
	w.line("min.s64 %s, %s, %d;", end, end, r.count)
	w.line("add.s64 %s, %s, %s;", j, j, wideWorker)

	acc := r.start(w)
	outside, none := w.register("p"), w.label()
	w.line("setp.ge.s64 %s, %s, %d;", outside, o, r.outputs)
	w.line("@%s bra %s;", outside, none)
	r.accumulate(w, bases, o, j, end, acc)
	w.mark(none)
	r.tree(w, tid, worker, acc)

	idle, done := w.register("p"), w.label()
	w.line("setp.ne.u32 %s, %s, 0;", idle, worker)
	w.line("or.pred %s, %s, %s;", idle, idle, outside)
	w.line("@%s bra %s;", idle, done)
	r.store(w, y, o, widePiece, acc)
	w.mark(done)
	return w.module("reduce")
}

// start returns a register with the result of no element.
func (r reduction) start(w *writer) string {
	if r.integer {
		acc := w.register("l")
		w.line("mov.b64 %s, %d;", acc, kernels.IntegerReduceAttrs{Func: r.integerFunc()}.First())
		return acc
	}
	acc, first := w.register("d"), 0.0
	if r.max {
		first = math.Inf(-1)
	}
	w.line("mov.f64 %s, %s;", acc, double.literal(first))
	return acc
}

// integerFunc returns the function of a reduction of integers.
func (r reduction) integerFunc() kernels.IntegerFunc {
	if r.max {
		return kernels.IntegerMax
	}
	return kernels.IntegerAdd
}

// accumulate folds elements j, j + workers, … of result o into acc.
func (r reduction) accumulate(w *writer, bases []string, o, j, end, acc string) {
	kept, gone := make([]operand, len(r.x)), make([]operand, len(r.x))
	for k, x := range r.x {
		kept[k] = operand{x.t, x.start, x.strides[:len(r.kept)]}
		gone[k] = operand{x.t, 0, x.strides[len(r.kept):]}
	}
	from := make([]string, len(r.x))
	for k, at := range w.offsets(o, r.kept, kept) {
		from[k] = w.element(bases[k], at, r.x[k].t.Size())
	}
	by := w.register("l")
	w.line("mov.u64 %s, %d;", by, r.workers)
	w.loop(j, end, by, func() {
		if r.integer {
			t := r.x[0].t
			r.fold(w, acc, w.widen(t, w.raw(t, w.element(from[0], w.offsets(j, r.gone, gone)[0], t.Size()))))
			return
		}
		x := make([]string, len(r.x))
		for k, at := range w.offsets(j, r.gone, gone) {
			x[k] = w.load(r.n, r.x[k].t, from[k], at)
		}
		r.fold(w, acc, w.convert(double, typeOf(r.n), w.steps(r.n, r.steps, x)))
	})
}

// typeOf is the type of a floatKind.
func typeOf(n floatKind) arena.DType {
	if n.single {
		return arena.Float32
	}
	return arena.Float64
}

// fold folds v into acc: the sum, or the larger one, NaN if one is.
func (r reduction) fold(w *writer, acc, v string) {
	if r.integer {
		w.line("%s %s, %s, %s;", integerInstructions[r.integerFunc()], acc, acc, v)
		return
	}
	if !r.max {
		w.line("add.rn.f64 %s, %s, %s;", acc, acc, v)
		return
	}
	more, none := w.register("p"), w.register("p")
	w.line("setp.gt.f64 %s, %s, %s;", more, v, acc)
	w.line("setp.nan.f64 %s, %s, %s;", none, v, v)
	w.line("or.pred %s, %s, %s;", more, more, none)
	w.line("selp.f64 %s, %s, %s, %s;", acc, v, acc, more)
}

// tree folds the values of the threads of each result; worker 0 gets the result.
func (r reduction) tree(w *writer, tid, worker, acc string) {
	if r.workers == 1 {
		return
	}
	table, own := w.register("l"), w.register("l")
	w.line("mov.u64 %s, part;", table)
	w.line("mad.wide.u32 %s, %s, 8, %s;", own, tid, table)
	step := 8
	if !r.adjacent {
		step *= r.lanes
	}
	for s := r.workers / 2; s > 0; s /= 2 {
		kind, ptx := r.accumulator()
		w.line("st.shared.%s [%s], %s;", ptx, own, acc)
		w.line("bar.sync 0;")
		p, skip, v := w.register("p"), w.label(), w.register(kind)
		w.line("setp.ge.u32 %s, %s, %d;", p, worker, s)
		w.line("@%s bra %s;", p, skip)
		w.line("ld.shared.%s %s, [%s+%d];", ptx, v, own, s*step)
		r.fold(w, acc, v)
		w.mark(skip)
		w.line("bar.sync 0;")
	}
}

// accumulator returns the register kind of a sum, and its type in loads and stores.
func (r reduction) accumulator() (kind, ptx string) {
	if r.integer {
		return "l", "b64"
	}
	return "d", "f64"
}

// store writes the value of a result, or of a piece.
func (r reduction) store(w *writer, y, o, piece, acc string) {
	if r.pieces > 1 {
		at := w.register("l")
		w.line("mad.lo.s64 %s, %s, %d, %s;", at, piece, r.outputs, o)
		_, ptx := r.accumulator()
		w.line("st.global.%s [%s], %s;", ptx, w.element(y, at, 8), acc)
		return
	}
	if r.integer {
		w.storeLow(r.y, w.element(y, o, r.y.Size()), acc)
		return
	}
	if r.mean {
		w.line("div.rn.f64 %s, %s, %s;", acc, acc, double.literal(float64(r.count)))
	}
	n := floatKindOf(r.y)
	w.line("st.global.%s [%s], %s;", n.ptx, w.element(y, o, r.y.Size()), w.convert(n, arena.Float64, acc))
}

// log2 is the logarithm of a power of 2.
func log2(n int) int {
	k := 0
	for ; n > 1; n /= 2 {
		k++
	}
	return k
}

// launchReduction appends a reduction.
func (b *binding) launchReduction(r reduction, x []address, y address) {
	if r.outputs == 0 {
		return
	}
	args := make([]any, 0, len(x)+1)
	for _, a := range x {
		args = append(args, a)
	}
	grid := dim{x: r.blocksOfOutputs, y: r.pieces}
	if r.pieces == 1 {
		b.launchText(r.text(), "reduce", grid, line(blockThreads), 0, append(args, y)...)
		return
	}
	b.launchText(r.text(), "reduce", grid, line(blockThreads), 0, append(args, b.work())...)
	piece := arena.Float64
	if r.integer {
		piece = arena.Int64
	}
	last := newReduction([]int{0}, kernels.Shape{r.pieces, r.outputs}, []operand{{piece, 0, []int{r.outputs, 1}}})
	last.n, last.max, last.integer, last.y = double, r.max, r.integer, r.y
	last.plan = last.plan.whole()
	if r.mean {
		mean := kernels.AffineAttrs{Scale: 1 / float64(r.count)}
		last.steps = []kernels.Step{{Op: kernels.Affine, Attrs: mean, A: 0, B: -1}}
	}
	b.launchText(last.text(), "reduce", dim{x: last.blocksOfOutputs}, line(blockThreads), 0, b.work(), y)
}

// whole returns the plan without pieces.
func (p plan) whole() plan {
	p.pieces, p.perCut = 1, p.count
	return p
}

// chainReduction returns the reduction at the end of a chain, of an operand of the given shape.
func chainReduction(a *kernels.ChainAttrs, shape kernels.Shape, in []kernels.Spec, t arena.DType) reduction {
	x := make([]operand, len(in))
	for k, s := range in {
		x[k] = operand{s.Type, 0, spread(s.Shape, shape)}
	}
	r := newReduction(a.ReduceAttrs.Axes, shape, x)
	r.n, r.steps, r.max, r.mean, r.y = floatKindOf(t), a.Steps, a.Reduce == kernels.Max, a.Reduce == kernels.Mean, t
	return r
}

func chainWork(_ *properties, attrs any, in, out []kernels.Spec) int64 {
	a := attrs.(*kernels.ChainAttrs)
	if a.Reduce == nil {
		return 0
	}
	last, err := a.Last(in)
	if err != nil {
		return 0
	}
	return chainReduction(a, last.Shape, in, out[0].Type).work()
}

// asChain returns a reduction as a chain without steps.
func asChain(op *kernels.Op, attrs any) *kernels.ChainAttrs {
	return &kernels.ChainAttrs{Reduce: op, ReduceAttrs: attrs.(kernels.ReduceAttrs)}
}

// bindReduce prepares Sum, Mean and Max.
func bindReduce(b *binding) error {
	r := chainReduction(asChain(b.Op, b.Attrs), b.In[0].Shape, kernels.Specs(b.In), b.Out[0].Type)
	b.launchReduction(r, b.inputs(), b.out(0))
	return nil
}

func reduceWork(_ *properties, attrs any, in, out []kernels.Spec) int64 {
	return chainReduction(asChain(kernels.Sum, attrs), in[0].Shape, in, out[0].Type).work()
}

// integerReduction returns the reduction of IntegerReduce.
func integerReduction(a kernels.IntegerReduceAttrs, x kernels.Spec) reduction {
	r := newReduction(a.Axes, x.Shape, []operand{{x.Type, 0, rowMajor(x.Shape)}})
	r.integer, r.max, r.y = true, a.Func == kernels.IntegerMax, a.To
	return r
}

// bindIntegerReduce prepares IntegerReduce.
func bindIntegerReduce(b *binding) error {
	b.launchReduction(integerReduction(b.Attrs.(kernels.IntegerReduceAttrs), b.In[0].Spec), b.inputs(), b.out(0))
	return nil
}

func integerReduceWork(_ *properties, attrs any, in, _ []kernels.Spec) int64 {
	return integerReduction(attrs.(kernels.IntegerReduceAttrs), in[0]).work()
}

// squares returns the reduction of SumSquares: in float64 from the first product on.
func squares(in kernels.Spec) reduction {
	r := newReduction(nil, in.Shape, []operand{{in.Type, 0, rowMajor(in.Shape)}})
	r.n, r.y = double, arena.Float64
	r.steps = []kernels.Step{{Op: kernels.Square, A: 0, B: -1}}
	return r
}

func bindSumSquares(b *binding) error {
	b.launchReduction(squares(b.In[0].Spec), b.inputs(), b.out(0))
	return nil
}

func sumSquaresWork(_ *properties, _ any, in, _ []kernels.Spec) int64 { return squares(in[0]).work() }
