package cpu_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

var matmulSeed = flag.Uint64("matmul.seed", 1, "seed of the random products")

// A product is a matmul to test, over operands in one block of memory.
type product struct {
	variant        string
	typ            arena.DType
	batch, m, k, n int // batch 0: rank 2
	attrs          kernels.MatMulAttrs
	stored         [2]arena.DType // of the factors, where it is not typ
}

func newProduct(variant string, typ arena.DType, batch, m, k, n int, attrs kernels.MatMulAttrs) product {
	return product{variant: variant, typ: typ, batch: batch, m: m, k: k, n: n, attrs: attrs}
}

// rounded is p with factors that are rounded, and stored in any way.
func (p product) rounded(r *rand.Rand, to arena.DType) product {
	p.attrs.ComputeType = to
	for i := range p.stored {
		p.stored[i] = []arena.DType{p.typ, to}[r.IntN(2)]
	}
	return p
}

func (p product) String() string {
	s := fmt.Sprintf("%s/%v/%dx%dx%d", p.variant, p.typ, p.m, p.k, p.n)
	if p.batch > 0 {
		s += fmt.Sprintf("/batch=%d", p.batch)
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{p.attrs.TransA, "transA"}, {p.attrs.TransB, "transB"}, {p.attrs.Bias, "bias"}} {
		if f.on {
			s += "/" + f.name
		}
	}
	if p.attrs.Act != nil {
		s += "/" + p.attrs.Act.Name
	}
	if p.attrs.ComputeType != 0 {
		s += fmt.Sprintf("/%v%v", p.attrs.ComputeType, p.stored)
	}
	return s
}

// specs returns the operands and the result.
func (p product) specs() (in, out []kernels.Spec) {
	shape := func(r, c int, trans bool) kernels.Spec {
		if trans {
			r, c = c, r
		}
		if p.batch > 0 {
			return kernels.Spec{Type: p.typ, Shape: kernels.Shape{p.batch, r, c}}
		}
		return kernels.Spec{Type: p.typ, Shape: kernels.Shape{r, c}}
	}
	in = []kernels.Spec{shape(p.m, p.k, p.attrs.TransA), shape(p.k, p.n, p.attrs.TransB)}
	for i, t := range p.stored {
		if t != 0 {
			in[i].Type = t
		}
	}
	if p.attrs.Bias {
		in = append(in, kernels.Spec{Type: p.typ, Shape: kernels.Shape{p.n}})
	}
	rows := p.m
	if p.attrs.Rows != [2]int{} {
		rows = p.attrs.Rows[1] - p.attrs.Rows[0]
	}
	return in, []kernels.Spec{shape(rows, p.n, false)}
}

// operands lays the operands out in memory of their own: inputs, result, workspace.
type operands struct {
	call kernels.Call
	mem  []byte
	base []int64
}

func (o *operands) bytes(x kernels.Operand) []byte {
	at := o.base[x.Ref.Region]
	return o.mem[at : at+x.Ref.Size : at+x.Ref.Size]
}

func (p product) layOut(threads int) *operands {
	in, out := p.specs()
	o := &operands{call: kernels.Call{Op: kernels.MatMul, Attrs: p.attrs}}
	end := int64(0)
	place := func(size int64) arena.Ref {
		o.base = append(o.base, end)
		end += arena.Round(size)
		return arena.Ref{Region: arena.Region(len(o.base) - 1), Size: size}
	}
	for _, s := range in {
		o.call.In = append(o.call.In, kernels.Operand{Spec: s, Ref: place(s.Bytes())})
	}
	o.call.Out = []kernels.Operand{{Spec: out[0], Ref: place(out[0].Bytes())}}
	o.call.Work = place(cpu.MatMulWorkspace(p.variant, threads, p.attrs, in, out))
	o.mem = make([]byte, end)
	return o
}

// fill writes normal numbers to the inputs, and NaN to all that the product has to write.
func (o *operands) fill(r *rand.Rand) {
	for i := range o.mem {
		o.mem[i] = 0xff
	}
	for _, in := range o.call.In {
		if in.Type == arena.Float32 {
			for i := range cpu.Elements[float32](o.bytes(in)) {
				cpu.Elements[float32](o.bytes(in))[i] = float32(r.NormFloat64())
			}
			continue
		}
		if in.Type.Half() {
			for i := range cpu.Elements[uint16](o.bytes(in)) {
				cpu.Elements[uint16](o.bytes(in))[i] = toHalf(in.Type, float32(r.NormFloat64()))
			}
			continue
		}
		for i := range cpu.Elements[float64](o.bytes(in)) {
			cpu.Elements[float64](o.bytes(in))[i] = r.NormFloat64()
		}
	}
}

func toHalf(t arena.DType, v float32) uint16 {
	if t == arena.BFloat16 {
		return float16.ToBFloat16(v)
	}
	return float16.ToFloat16(v)
}

func fromHalf(t arena.DType, h uint16) float32 {
	if t == arena.BFloat16 {
		return float16.FromBFloat16(h)
	}
	return float16.FromFloat16(h)
}

// values returns an operand in float64.
func (o *operands) values(x kernels.Operand) []float64 {
	if x.Type == arena.Float64 {
		return cpu.Elements[float64](o.bytes(x))
	}
	if x.Type.Half() {
		var v []float64
		for _, h := range cpu.Elements[uint16](o.bytes(x)) {
			v = append(v, float64(fromHalf(x.Type, h)))
		}
		return v
	}
	var v []float64
	for _, f := range cpu.Elements[float32](o.bytes(x)) {
		v = append(v, float64(f))
	}
	return v
}

// run computes p on that many threads and returns the result's bytes.
func (p product) run(t testing.TB, o *operands, threads int) []byte {
	t.Helper()
	pool := cpu.NewPool(threads)
	defer pool.Close()
	run, err := cpu.BindMatMul(p.variant, pool, o.call, o.mem, o.base)
	if err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	run()
	return slices.Clone(o.bytes(o.call.Out[0]))
}

// sums returns what p is before its activation, in float64, and for each sum the sum of absolute values.
func (p product) sums(o *operands) (sums, sizes []float64) {
	a, b := o.values(o.call.In[0]), o.values(o.call.In[1])
	if t := p.attrs.ComputeType; t != 0 {
		for _, v := range [][]float64{a, b} {
			for i := range v {
				v[i] = kernels.Round(t, v[i])
			}
		}
	}
	var bias []float64
	if p.attrs.Bias {
		bias = o.values(o.call.In[2])
	}
	sums = make([]float64, o.call.Out[0].Shape.Elems())
	sizes = make([]float64, len(sums))
	for at := range sums {
		x, i, j := at/(p.m*p.n), at/p.n%p.m, at%p.n
		sum, size := 0.0, 0.0
		for l := range p.k {
			ai, bi := x*p.m*p.k+i*p.k+l, x*p.k*p.n+l*p.n+j
			if p.attrs.TransA {
				ai = x*p.m*p.k + l*p.m + i
			}
			if p.attrs.TransB {
				bi = x*p.k*p.n + j*p.k + l
			}
			sum += a[ai] * b[bi]
			size += math.Abs(a[ai] * b[bi])
		}
		if p.attrs.Bias {
			sum += bias[j]
			size += math.Abs(bias[j])
		}
		sums[at], sizes[at] = sum, size
	}
	return sums, sizes
}

// check compares a result with sums in float64. A sum of k products in precision eps is off by no more than
// (k+2) eps Σ|ab|, in any order (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). The activations that the
// tests use bring no two numbers farther apart, and are off by less than 8 roundings of their own.
func (p product) check(t *testing.T, o *operands) {
	t.Helper()
	eps := 0x1p-24
	if p.typ == arena.Float64 {
		eps = 0x1p-52 // sums to compare with are as inexact
	}
	got := o.values(o.call.Out[0])
	sums, sizes := p.sums(o)
	if p.attrs.Act != nil {
		cpu.ActivateSums(p.attrs.Act, p.attrs.ActAttrs, sums)
	}
	for i, want := range sums {
		limit := float64(p.k+2) * eps * sizes[i]
		if p.attrs.Act != nil {
			limit += 8 * eps * math.Abs(want)
		}
		if !(math.Abs(got[i]-want) <= limit) {
			t.Fatalf("%v: element %d: got %v, want %v within %v (seed %d)", p, i, got[i], want, limit, *matmulSeed)
		}
	}
}

// activations are what a product may end with: nothing, and all that MatMul takes.
var activations = []struct {
	op    *kernels.Op
	attrs any
}{{nil, nil}, {kernels.ReLU, nil}, {kernels.LeakyReLU, kernels.LeakyReLUAttrs{Slope: 0.1}}, {kernels.Sigmoid, nil}, {kernels.Tanh, nil}}

// awkward are sizes around the tiles and blocks of all variants.
var awkward = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 23, 28, 31, 32, 33, 47, 64, 65, 100, 129}

// products returns the products that all tests are about, for every variant.
func products(r *rand.Rand) []product {
	var list []product
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		for _, v := range allVariants(typ) {
			add := func(batch, m, k, n int) {
				bits := r.IntN(8)
				attrs := kernels.MatMulAttrs{TransA: bits&1 != 0, TransB: bits&2 != 0, Bias: bits&4 != 0}
				p := newProduct(v, typ, batch, m, k, n, attrs)
				if slices.Contains(cpu.MatMulVariants(typ), v) {
					list = append(list, p)
				}
				for _, to := range []arena.DType{arena.BFloat16, arena.Float16} {
					if slices.Contains(cpu.RoundingVariants(typ, to), v) && r.IntN(2) == 0 {
						list = append(list, p.rounded(r, to))
					}
				}
			}
			dim := func() int { return awkward[r.IntN(len(awkward))] }
			for range 40 {
				add(0, dim(), dim(), dim())
			}
			for range 12 {
				add(1+r.IntN(5), dim(), dim(), dim())
			}
			for _, s := range [][3]int{{1, 700, 100}, {100, 700, 1}, {300, 5, 1}, {1, 1, 1}, {3, 321, 33}, {33, 641, 3},
				{350, 330, 18}, {100, 128, 160}, {40, 512, 96}, {64, 1024, 50}, {5, 0, 4}, {4, 0, 1}, {0, 3, 2},
				{1, 17000, 9}, {1, 17001, 3}, {9, 16500, 1}, {5, 16500, 1}} {
				add(0, s[0], s[1], s[2])
			}
		}
	}
	return list
}

// allVariants lists the kernels for t that compute products of any factors.
func allVariants(t arena.DType) []string {
	all := slices.Concat(cpu.MatMulVariants(t), cpu.RoundingVariants(t, arena.BFloat16))
	slices.Sort(all)
	return slices.Compact(all)
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(*matmulSeed, 7)) }

func TestMatMulIsExactToRounding(t *testing.T) {
	r := newRand()
	for _, p := range products(r) {
		o := p.layOut(2)
		o.fill(r)
		p.run(t, o, 2)
		p.check(t, o)
	}
}

func TestMatMulHasTheSameBitsOnAnyNumberOfThreads(t *testing.T) {
	r := newRand()
	for _, p := range products(r) {
		o := p.layOut(5)
		o.fill(r)
		want := p.run(t, o, 1)
		for _, threads := range []int{2, 3, 5} {
			for i := range o.bytes(o.call.Out[0]) {
				o.bytes(o.call.Out[0])[i] = 0xff
			}
			o.call.Work.Size = cpu.MatMulWorkspace(p.variant, threads, p.attrs, specsOf(o.call.In), specsOf(o.call.Out))
			if o.call.Work.Size > int64(len(o.mem))-o.base[len(o.base)-1] {
				o.mem = append(o.mem, make([]byte, o.call.Work.Size)...)
			}
			if got := p.run(t, o, threads); !bytes.Equal(got, want) {
				t.Fatalf("%v: %d threads differ from one (seed %d)", p, threads, *matmulSeed)
			}
		}
	}
}

func specsOf(operands []kernels.Operand) []kernels.Spec {
	var s []kernels.Spec
	for _, o := range operands {
		s = append(s, o.Spec)
	}
	return s
}

func TestAssemblyVariantsOfMatMulHaveTheSameBits(t *testing.T) {
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		var asm []string
		for _, v := range cpu.MatMulVariants(typ) {
			if v == "avx2" || v == "avx512" {
				asm = append(asm, v)
			}
		}
		for _, p := range products(newRand()) {
			if p.typ != typ || len(asm) < 2 || p.variant != asm[0] {
				continue
			}
			var want []byte
			for _, p.variant = range asm {
				o := p.layOut(1)
				o.fill(newRand())
				got := p.run(t, o, 1)
				if want != nil && !bytes.Equal(got, want) {
					t.Fatalf("%v: bits differ from %s (seed %d)", p, asm[0], *matmulSeed)
				}
				want = got
			}
		}
	}
}

func TestFusedMatMulHasTheBitsOfItsParts(t *testing.T) {
	r := newRand()
	for i, p := range products(r) {
		act := activations[i%len(activations)]
		p.attrs.Act, p.attrs.ActAttrs = act.op, act.attrs
		fused := p.layOut(2)
		fused.fill(r)
		fused.spoil(r, p)
		got := p.run(t, fused, 2)

		plain := p
		plain.attrs = kernels.MatMulAttrs{TransA: p.attrs.TransA, TransB: p.attrs.TransB, ComputeType: p.attrs.ComputeType}
		o := plain.layOut(2)
		for k := range o.call.In {
			copy(o.bytes(o.call.In[k]), fused.bytes(fused.call.In[k]))
		}
		want := plain.run(t, o, 2)
		if p.attrs.Bias {
			addBias(want, fused.bytes(fused.call.In[2]), p.typ)
		}
		if act.op != nil {
			cpu.Activate(act.op, act.attrs, p.typ, want)
		}
		if !bytes.Equal(got, want) && !sameButForNaN(got, want, p.typ) {
			t.Fatalf("%v: fused differs from matmul, add, activation one by one (seed %d)", p, *matmulSeed)
		}
	}
}

// spoil makes one row of the result infinite or not a number, which an activation must not hide.
func (o *operands) spoil(r *rand.Rand, p product) {
	if p.m*p.k == 0 || r.IntN(2) == 0 {
		return
	}
	v := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
	a := o.bytes(o.call.In[0])
	if t := o.call.In[0].Type; t.Half() {
		cpu.Elements[uint16](a)[0] = toHalf(t, float32(v))
	} else if p.typ == arena.Float32 {
		cpu.Elements[float32](a)[0] = float32(v)
	} else {
		cpu.Elements[float64](a)[0] = v
	}
}

// sameButForNaN compares elements, all NaN being one.
func sameButForNaN(a, b []byte, t arena.DType) bool {
	if t == arena.Float32 {
		return slices.EqualFunc(cpu.Elements[float32](a), cpu.Elements[float32](b), func(x, y float32) bool {
			return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
		})
	}
	return slices.EqualFunc(cpu.Elements[float64](a), cpu.Elements[float64](b), func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	})
}

func addBias(c, bias []byte, t arena.DType) {
	if t == arena.Float32 {
		b := cpu.Elements[float32](bias)
		for i := range cpu.Elements[float32](c) {
			cpu.Elements[float32](c)[i] += b[i%len(b)]
		}
		return
	}
	b := cpu.Elements[float64](bias)
	for i := range cpu.Elements[float64](c) {
		cpu.Elements[float64](c)[i] += b[i%len(b)]
	}
}

func TestMatMulAllocatesNothing(t *testing.T) {
	pool := cpu.NewPool(2)
	defer pool.Close()
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		for _, v := range allVariants(typ) {
			if strings.HasPrefix(v, "wide") {
				continue
			}
			for _, s := range [][3]int{{5, 7, 9}, {128, 256, 10}, {64, 96, 128}} {
				p := newProduct(v, typ, 0, s[0], s[1], s[2], kernels.MatMulAttrs{TransA: true, TransB: s[0] == 5, Bias: true, Act: kernels.Tanh})
				if !slices.Contains(cpu.MatMulVariants(typ), v) {
					p = p.rounded(newRand(), arena.BFloat16)
				}
				o := p.layOut(2)
				o.fill(newRand())
				run, err := cpu.BindMatMul(v, pool, o.call, o.mem, o.base)
				if err != nil {
					t.Fatal(err)
				}
				if got := testing.AllocsPerRun(10, run); got != 0 {
					t.Errorf("%v: %v allocations, want 0", p, got)
				}
			}
		}
	}
}

func TestMatMulWorkspaceIsSmall(t *testing.T) {
	for _, v := range cpu.MatMulVariants(arena.Float32) {
		for _, s := range mlp {
			p := newProduct(v, arena.Float32, 0, s.m, s.k, s.n, s.attrs)
			in, out := p.specs()
			if got := cpu.MatMulWorkspace(p.variant, 2, p.attrs, in, out); got > 320<<10 {
				t.Errorf("%v: workspace %d bytes on two threads, want at most 320 KiB", p, got)
			}
		}
	}
}

func TestMatMulFlushesDenormalNumbersAndRestoresTheirTreatment(t *testing.T) {
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		for _, v := range cpu.MatMulVariants(typ) {
			if v == "go" || v == "wide" {
				continue // plain Go computes them
			}
			for _, attrs := range []kernels.MatMulAttrs{{}, {TransB: true}} {
				p := newProduct(v, typ, 0, 1, 20, 20, attrs)
				o := p.layOut(1)
				o.fill(newRand())
				a := o.bytes(o.call.In[0])
				clear(a)
				for i := 0; i < len(a); i += int(typ.Size()) {
					a[i] = 1 // the smallest number there is
				}
				tiny := math.Float32frombits(uint32(a[0]))
				p.run(t, o, 1)
				for _, got := range o.values(o.call.Out[0]) {
					if got != 0 {
						t.Fatalf("%v: got %v, want 0", p, got)
					}
				}
				if tiny+tiny == 0 {
					t.Fatalf("%v: denormal numbers are flushed afterwards", p)
				}
			}
		}
	}
}
