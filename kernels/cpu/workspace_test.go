package cpu_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// A program for the last, short batch runs in the scratch that was planned for a full one.

var threadCounts = []int{1, 2, 3, 4, 6, 8, 16, 64}

// sizeUpTo returns a size from 1 to n, often n, 1 or one where plans change.
func sizeUpTo(r *rand.Rand, n int) int {
	switch steps := []int{16, 32, 256, 320, 512, 1024, pieceLen}; r.IntN(5) {
	case 0:
		return n
	case 1:
		return 1
	case 2:
		return min(n, awkward[r.IntN(len(awkward))])
	case 3:
		step := steps[r.IntN(len(steps))]
		return max(1, min(n, r.IntN(max(1, n/step)+1)*step+r.IntN(3)-1))
	}
	return 1 + r.IntN(n)
}

// pieceLen is what long reductions are cut into.
const pieceLen = 16 * 1024

func (p product) workspace(threads int) (workspace, need int64) {
	in, out := p.specs()
	return cpu.MatMulWorkspace(p.variant, threads, p.attrs, in, out), cpu.MatMulNeed(p.variant, threads, p.attrs, in, out)
}

func TestSmallerProductsNeedNoMoreWorkspace(t *testing.T) {
	r, seed := random(t)
	for range 40_000 {
		typ := floats[r.IntN(len(floats))]
		variants, threads := cpu.MatMulVariants(typ), threadCounts[r.IntN(len(threadCounts))]
		big := product{variant: variants[r.IntN(len(variants))], typ: typ, batch: r.IntN(3) * r.IntN(9),
			m: sizeUpTo(r, 3000), k: sizeUpTo(r, 6000), n: sizeUpTo(r, 3000),
			attrs: kernels.MatMulAttrs{TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0}}
		if to := []arena.DType{0, arena.BFloat16, arena.Float16}[r.IntN(3)]; to != 0 {
			if variants = cpu.RoundingVariants(typ, to); len(variants) > 0 {
				big.variant = variants[r.IntN(len(variants))]
				big = big.rounded(r, to)
			}
		}
		small := big
		small.m, small.k, small.n = sizeUpTo(r, big.m), sizeUpTo(r, big.k), sizeUpTo(r, big.n)
		if big.batch > 0 {
			small.batch = 1 + r.IntN(big.batch)
		}
		limit, need := big.workspace(threads)
		if need > limit {
			t.Fatalf("%v on %d threads uses %d bytes of a workspace of %d (seed %d)", big, threads, need, limit, seed)
		}
		if got, _ := small.workspace(threads); got > limit {
			t.Fatalf("%v on %d threads wants %d bytes, the larger %v %d (seed %d)", small, threads, got, big, limit, seed)
		}
	}
}

func TestEveryTailOfABatchNeedsNoMoreWorkspaceThanTheBatch(t *testing.T) {
	for _, typ := range floats {
		for _, full := range typical(typ) {
			for _, threads := range threadCounts {
				limit, _ := full.workspace(threads)
				for rows := 1; rows <= 128; rows++ {
					tail := full
					if tail.attrs.TransA {
						tail.k = min(rows, tail.k)
					} else {
						tail.m = min(rows, tail.m)
					}
					got, need := tail.workspace(threads)
					if need > got || got > limit {
						t.Fatalf("%v on %d threads uses %d of %d bytes, %v has %d", tail, threads, need, got, full, limit)
					}
				}
			}
		}
	}
}

// scaled is a call at two sizes.
type scaled struct {
	attrs      any
	big, small []kernels.Spec
}

// shapes returns a shape of up to four dimensions and one that is nowhere larger.
func shapes(r *rand.Rand, most int) (big, small kernels.Shape) {
	for range r.IntN(5) {
		d := sizeUpTo(r, most)
		big, small = append(big, d), append(small, sizeUpTo(r, d))
	}
	return big, small
}

func scaledReduction(r *rand.Rand, typ arena.DType) scaled {
	big, small := shapes(r, 40_000)
	var axes []int
	for k := range big {
		if r.IntN(2) == 0 {
			axes = append(axes, k)
		}
	}
	return scaled{kernels.ReduceAttrs{Axes: axes, Keep: r.IntN(2) == 0},
		[]kernels.Spec{{Type: typ, Shape: big}}, []kernels.Spec{{Type: typ, Shape: small}}}
}

func scaledSquares(r *rand.Rand, typ arena.DType) scaled {
	big, small := shapes(r, 40_000)
	return scaled{nil, []kernels.Spec{{Type: typ, Shape: big}}, []kernels.Spec{{Type: typ, Shape: small}}}
}

func scaledFactors(r *rand.Rand, typ arena.DType) scaled {
	big, small := shapes(r, 300)
	operands := func(s kernels.Shape) []kernels.Spec {
		p := kernels.Spec{Type: typ, Shape: s}
		rows, columns := factorSpecs(p)
		return []kernels.Spec{p, p, kernels.GuardSpec, kernels.ControlsSpec, rows, columns}
	}
	return scaled{kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Least: 1e-3}, operands(big), operands(small)}
}

// scaledOperands returns two operands that broadcast in the same dimensions at both sizes.
func scaledOperands(r *rand.Rand, typ arena.DType) scaled {
	big, small := shapes(r, 300)
	var c scaled
	for range 2 {
		b, s := append(kernels.Shape{}, big...), append(kernels.Shape{}, small...)
		for k := range b {
			if r.IntN(3) == 0 {
				b[k], s[k] = 1, 1
			}
		}
		from := r.IntN(len(b)*(r.IntN(2)) + 1)
		c.big = append(c.big, kernels.Spec{Type: typ, Shape: b[from:]})
		c.small = append(c.small, kernels.Spec{Type: typ, Shape: s[from:]})
	}
	return c
}

func scaledChain(r *rand.Rand, typ arena.DType) scaled {
	c := scaledOperands(r, typ)
	c.attrs = &kernels.ChainAttrs{Steps: []kernels.Step{
		{Op: kernels.Fill, Attrs: kernels.FillAttrs{Type: typ, Value: 2}, A: -1, B: -1},
		{Op: kernels.Mul, A: 0, B: 1}, {Op: kernels.Exp, A: 3, B: -1}, {Op: kernels.Add, A: 4, B: 2}}}
	if r.IntN(2) == 0 {
		a := c.attrs.(*kernels.ChainAttrs)
		a.Reduce = []*kernels.Op{kernels.Sum, kernels.Mean, kernels.Max}[r.IntN(3)]
		for k := range max(len(c.big[0].Shape), len(c.big[1].Shape)) {
			if r.IntN(2) == 0 {
				a.ReduceAttrs.Axes = append(a.ReduceAttrs.Axes, k)
			}
		}
	}
	return c
}

// scaledNorm returns operands of a normalization for a call of its gradient, or of BatchNorm.
func scaledNorm(op *kernels.Op) func(r *rand.Rand, typ arena.DType) scaled {
	return func(r *rand.Rand, typ arena.DType) scaled {
		big := kernels.Shape{2 + r.IntN(200), 1 + r.IntN(100), sizeUpTo(r, 2000), sizeUpTo(r, 100)}
		small := kernels.Shape{2 + r.IntN(big[0]-1), 1 + r.IntN(big[1]), sizeUpTo(r, big[2]), sizeUpTo(r, big[3])}
		operands := func(x kernels.Shape) []kernels.Spec {
			of := func(dims ...int) kernels.Spec { return kernels.Spec{Type: typ, Shape: dims} }
			all, c := of(x...), of(x[1])
			switch op {
			case kernels.BatchNorm:
				return []kernels.Spec{all, c, c}
			case kernels.BatchNormGrad:
				return []kernels.Spec{all, c, c, c, c, all}
			case kernels.GroupNormGrad:
				return []kernels.Spec{all, c, of(x[0], 1), of(x[0], 1), all}
			}
			rows := of(x[:3].Elems())
			return []kernels.Spec{all, of(x[3]), rows, rows, all}
		}
		attrs := map[*kernels.Op]any{kernels.GroupNormGrad: kernels.GroupNormAttrs{Groups: 1, Eps: 1},
			kernels.LayerNormGrad: kernels.LayerNormAttrs{Eps: 1}}[op]
		if attrs == nil {
			attrs = kernels.BatchNormAttrs{Eps: 1}
		}
		return scaled{attrs, operands(big), operands(small)}
	}
}

// scaledChoice returns a condition and two operands of one shape.
func scaledChoice(r *rand.Rand, typ arena.DType) scaled {
	c := scaledOperands(r, typ)
	return scaled{nil, append(c.big, c.big[1]), append(c.small, c.small[1])}
}

// scaledIntegers returns a sum of integers.
func scaledIntegers(r *rand.Rand, typ arena.DType) scaled {
	c := scaledOperands(r, typ)
	for _, in := range [][]kernels.Spec{c.big, c.small} {
		in[0].Type, in[1].Type = arena.Uint8, arena.Int64
	}
	return scaled{kernels.IntegerAttrs{Func: kernels.IntegerAdd, To: arena.Int32}, c.big, c.small}
}

var scaledCalls = map[*kernels.Op]func(r *rand.Rand, typ arena.DType) scaled{
	kernels.Sum: scaledReduction, kernels.Mean: scaledReduction, kernels.Max: scaledReduction,
	kernels.Conv: scaledConv(kernels.Conv), kernels.ConvGradInput: scaledConv(kernels.ConvGradInput), kernels.ConvGradWeight: scaledConv(kernels.ConvGradWeight),
	kernels.WinogradWeight: scaledWinogradWeight, kernels.WinogradConv: scaledWinogradConv,
	kernels.SumSquares: scaledSquares, kernels.Adafactor: scaledFactors,
	kernels.Chain: scaledChain, kernels.Add: scaledOperands, kernels.Pow: scaledOperands, kernels.Where: scaledChoice, kernels.Integer: scaledIntegers,
	kernels.BatchNorm: scaledNorm(kernels.BatchNorm), kernels.BatchNormGrad: scaledNorm(kernels.BatchNormGrad),
	kernels.LayerNormGrad: scaledNorm(kernels.LayerNormGrad), kernels.GroupNormGrad: scaledNorm(kernels.GroupNormGrad),
}

func TestSmallerCallsNeedNoMoreWorkspace(t *testing.T) {
	for _, op := range cpu.OpsWithWorkspace() {
		if scaledCalls[op] == nil && op != kernels.MatMul { // which has a test of its own
			t.Errorf("%s has workspace and no case here", op.Name)
		}
	}
	r, seed := random(t)
	for _, threads := range threadCounts {
		d := open(t, cpu.Options{Threads: threads})
		want := func(op *kernels.Op, attrs any, in []kernels.Spec) int64 {
			out, err := op.Infer(attrs, in)
			if err != nil {
				t.Fatalf("%s %v: %v (seed %d)", op.Name, in, err, seed)
			}
			return d.Workspace(op, attrs, in, out)
		}
		for op, next := range scaledCalls {
			used := false
			for range 500 {
				c := next(r, floats[r.IntN(len(floats))])
				big, small := want(op, c.attrs, c.big), want(op, c.attrs, c.small)
				used = used || big > 0
				if small > big {
					t.Fatalf("%s %v on %d threads wants %d bytes, on the larger %v %d (attrs %v, seed %d)",
						op.Name, c.small, threads, small, c.big, big, c.attrs, seed)
				}
			}
			missing := op.Optional && instructionsOf(t, d) == cpu.Portable
			if used == missing {
				t.Errorf("%s: no case with workspace (seed %d)", op.Name, seed)
			}
		}
	}
}

// TestCallsComputeTheSameInLargerWorkspace also runs reductions whose runs merge where dimensions are 1.
func TestCallsComputeTheSameInLargerWorkspace(t *testing.T) {
	r, seed := random(t)
	d := open(t, cpu.Options{Threads: 3})
	for _, c := range []struct {
		op    *kernels.Op
		attrs any
		shape kernels.Shape
	}{
		{kernels.SumSquares, nil, kernels.Shape{3, 20_000}},
		{kernels.Sum, kernels.ReduceAttrs{Axes: []int{0, 2}}, kernels.Shape{1, 5, 20_000}},
		{kernels.Mean, kernels.ReduceAttrs{Axes: []int{0, 2}}, kernels.Shape{300, 1, 200}},
		{kernels.Max, kernels.ReduceAttrs{Axes: []int{0}}, kernels.Shape{40_000, 1}},
		{kernels.Sum, kernels.ReduceAttrs{}, kernels.Shape{7, 3, 2_000}},
	} {
		u := newUse(t, r, d, c.op, kernels.Case{Attrs: c.attrs, In: []kernels.Spec{{Type: arena.Float32, Shape: c.shape}}})
		if u.call.Work.Size == 0 {
			t.Fatalf("%s %v has no workspace", c.op.Name, c.shape)
		}
		u.launch(t)
		want := u.results()[0]
		call := u.call
		call.Work.Size *= 3
		mem, err := d.Alloc(call.Work.Offset + call.Work.Size)
		if err != nil {
			t.Fatal(err)
		}
		all := mem.Bytes()
		for i := range all {
			all[i] = 0xff
		}
		copy(mem.Bytes(), u.first)
		prog, err := d.Bind([]kernels.Call{call}, kernels.Binding{Memory: mem, Base: []int64{0}})
		if err != nil {
			t.Fatal(err)
		}
		if err := prog.Launch(u.stream); err != nil {
			t.Fatal(err)
		}
		ref := call.Out[0].Ref
		if got := mem.Bytes()[ref.Offset:][:ref.Size]; !bytes.Equal(got, want) {
			t.Errorf("%s %v: %x in a workspace three times as large, want %x (seed %d)", c.op.Name, c.shape, got, want, seed)
		}
		for _, f := range []func() error{prog.Close, mem.Free} {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
		u.close(t)
	}
}
