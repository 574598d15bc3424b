package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// geometry is a convolution of square images and kernels.
type geometry struct {
	batch, in, out, size, kernel, stride, pad, dilation, groups int
}

func (g geometry) y() int { return (g.size+2*g.pad-g.dilation*(g.kernel-1)-1)/g.stride + 1 }

func both(n int) [2]int { return [2]int{n, n} }

// call returns attributes and operands of one of the three operations.
func (g geometry) call(op *kernels.Op, typ arena.DType) (any, []kernels.Spec) {
	spec := func(s ...int) kernels.Spec { return kernels.Spec{Type: typ, Shape: s} }
	x, y := spec(g.batch, g.in, g.size, g.size), spec(g.batch, g.out, g.y(), g.y())
	w := spec(g.out, g.in/g.groups, g.kernel, g.kernel)
	a := kernels.ConvGradAttrs{Stride: both(g.stride), Pad: both(g.pad), Dilation: both(g.dilation), Groups: g.groups}
	switch op {
	case kernels.ConvGradInput:
		a.Size = both(g.size)
		return a, []kernels.Spec{w, y}
	case kernels.ConvGradWeight:
		a.Size = both(g.kernel)
		return a, []kernels.Spec{x, y}
	}
	return kernels.ConvAttrs{Stride: a.Stride, Pad: a.Pad, Dilation: a.Dilation, Groups: a.Groups}, []kernels.Spec{x, w}
}

// scaledConv returns a convolution at two sizes. What attributes say of sizes stays.
func scaledConv(op *kernels.Op) func(r *rand.Rand, typ arena.DType) scaled {
	return func(r *rand.Rand, typ arena.DType) scaled {
		for {
			g := geometry{batch: sizeUpTo(r, 70), in: sizeUpTo(r, 600), out: sizeUpTo(r, 600), size: 1 + r.IntN(40),
				kernel: 1 + r.IntN(7), stride: 1 + r.IntN(3), pad: r.IntN(4), dilation: 1 + r.IntN(2), groups: 1}
			if r.IntN(3) == 0 {
				g.groups = 1 + r.IntN(8)
			}
			g.in, g.out = over(g.in, g.groups)*g.groups, over(g.out, g.groups)*g.groups
			small := g
			small.batch = sizeUpTo(r, g.batch)
			small.in = sizeUpTo(r, g.in/g.groups) * g.groups
			small.out = sizeUpTo(r, g.out/g.groups) * g.groups
			switch op {
			case kernels.Conv:
				small.size, small.kernel = 1+r.IntN(g.size), 1+r.IntN(g.kernel)
			case kernels.ConvGradInput:
				small.kernel = 1 + r.IntN(g.kernel)
			default:
				small.size = 1 + r.IntN(g.size)
			}
			fits := func(g geometry) bool { return g.size+2*g.pad >= g.dilation*(g.kernel-1)+1 }
			if !fits(g) || !fits(small) || small.y() > g.y() {
				continue
			}
			var c scaled
			c.attrs, c.big = g.call(op, typ)
			_, c.small = small.call(op, typ)
			if typ == arena.Float32 && r.IntN(2) == 0 {
				to := []arena.DType{arena.BFloat16, arena.Float16}[r.IntN(2)]
				c.attrs, c.big = anyRoundedConv(r, c.attrs, c.big, to)
				for i := range 2 {
					c.small[i].Type = c.big[i].Type
				}
			}
			return c
		}
	}
}

func over(a, b int) int { return (a + b - 1) / b }

// agree runs a case at every level and on several numbers of threads: AVX2 and AVX-512 give the same bits on all of them,
// portable code and products of pairs of bfloat16 their own, and all are what the reference says.
func agree(t testing.TB, op *kernels.Op, c kernels.Case, seed uint64) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s %+v of %v, seed %d: %s", op.Name, c.Attrs, c.In, seed, fmt.Sprintf(format, args...))
	}
	typ := mustInfer(t, op, c.Attrs, c.In)[0].Type
	var in []kernels.Tensor
	r := rand.New(rand.NewPCG(seed, 1))
	for _, s := range c.In {
		x := kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
		for i := range x.Data {
			x.Data[i] = kernels.Round(s.Type, r.NormFloat64())
		}
		in = append(in, x)
	}
	want, err := kernels.Eval(op, c.Attrs, in)
	if err != nil {
		fail("%v", err)
	}
	tolerance := c.Tolerance
	if typ == arena.Float64 {
		tolerance = 1e-12 + tolerance*0x1p-29
	}
	var assembly []byte
	for _, level := range []cpu.Instructions{cpu.AVX512BF16, cpu.AVX512, cpu.AVX2, cpu.Portable} {
		if level == cpu.AVX512BF16 && kernels.ComputeTypeOf(c.Attrs) != arena.BFloat16 {
			continue // the same kernels as AVX-512
		}
		var one []byte
		for _, threads := range []int{1, 3, 8} {
			d, err := cpu.Open(cpu.Options{Threads: threads, Instructions: level})
			if err != nil {
				break // the processor lacks them
			}
			u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, op, c)
			u.launch(t)
			got := u.results()[0]
			u.close(t)
			d.Close()
			if one == nil {
				one = got
			} else if !bytes.Equal(got, one) {
				fail("%v: %d threads give other bits than one", level, threads)
			}
		}
		if one == nil {
			continue
		}
		got := make([]float64, len(want[0].Data))
		kernels.Load(got, typ, one)
		for i, w := range want[0].Data {
			if !(math.Abs(got[i]-w) <= tolerance*max(1, math.Abs(w))) {
				fail("%v: element %d is %v, want %v", level, i, got[i], w)
			}
		}
		if level == cpu.Portable || level == cpu.AVX512BF16 {
			continue
		}
		if assembly != nil && !bytes.Equal(one, assembly) {
			fail("%v gives other bits than the level above", level)
		}
		assembly = one
	}
}

var convOps = []*kernels.Op{kernels.Conv, kernels.ConvGradInput, kernels.ConvGradWeight}

func TestConvolutionsAgreeAtEveryLevel(t *testing.T) {
	t.Parallel()
	r, _ := random(t)
	for _, g := range []geometry{
		{2, 3, 5, 7, 3, 1, 1, 1, 1},      // pixels of several images in a panel
		{9, 20, 18, 5, 3, 1, 1, 1, 1},    // the same in every tile
		{1, 40, 33, 9, 3, 1, 1, 1, 1},    // more steps than a stretch
		{3, 2, 3, 33, 3, 1, 1, 1, 1},     // rows longer than a vector
		{2, 4, 6, 20, 3, 2, 1, 1, 2},     // every second pixel, groups
		{2, 4, 6, 19, 5, 3, 2, 1, 1},     // every third
		{1, 3, 4, 23, 3, 1, 3, 3, 1},     // dilation
		{1, 3, 4, 23, 3, 2, 2, 2, 1},     // dilation that misses residues of the stride
		{2, 6, 6, 11, 3, 1, 1, 1, 6},     // depthwise
		{3, 70, 70, 9, 3, 1, 1, 1, 70},   // more channels than a task has
		{2, 5, 5, 14, 3, 2, 1, 1, 5},     // every second pixel
		{2, 4, 4, 21, 5, 3, 2, 2, 4},     // every third, dilation
		{2, 3, 6, 12, 3, 2, 1, 1, 3},     // depthwise, two outputs a channel
		{1, 4, 4, 100, 3, 3, 0, 1, 4},    // images larger than a band
		{2, 5, 5, 90, 2, 3, 11, 20, 5},   // the same, with rows of padding
		{1, 4, 4, 130, 2, 4, 0, 64, 4},   // taps farther apart than a band
		{1, 64, 64, 100, 3, 5, 0, 1, 64}, // a band of fewer channels
		{2, 17, 19, 8, 1, 1, 0, 1, 1},    // products
		{2, 5, 4, 9, 1, 3, 0, 1, 1},      // pixels in no window
		{5, 3, 4, 3, 3, 1, 0, 1, 1},      // one pixel an image
		{1, 1, 2, 26, 20, 1, 2, 1, 1},    // more taps than a stretch of a matmul has steps
		{3, 1, 2, 4, 2, 1, 4, 1, 1},      // pixels that see padding only
		{2, 130, 10, 12, 1, 1, 0, 1, 1},  // rows in several tasks
		{70, 1, 3, 9, 3, 1, 1, 1, 1},     // pixels in parts
		{2, 2, 300, 6, 3, 1, 1, 1, 1},    // outputs in blocks
		{1, 300, 2, 6, 3, 1, 1, 1, 1},    // a row of A longer than a cache holds
		{65, 3, 2, 1, 1, 1, 0, 1, 1},     // images of one pixel
		{2, 8, 8, 16, 3, 1, 1, 1, 1},     // shapes that whole vectors fill
		{1, 520, 16, 4, 1, 1, 0, 1, 1},   // rows that share sets of the cache
		{3, 32, 33, 8, 3, 1, 1, 1, 1},    // by tiles of 2x2 pixels from here on
		{2, 33, 32, 7, 3, 1, 1, 1, 1},    // whose last row and column is half
		{1, 64, 64, 12, 3, 1, 0, 1, 2},   // two groups, no padding
		{2, 32, 32, 5, 3, 1, 3, 1, 1},    // more padding than a tap reaches
		{1, 130, 130, 4, 3, 1, 1, 1, 1},  // rows in blocks, panels together
		{2, 2, 3, 40, 11, 4, 2, 1, 1},    // a first layer of old
		{1, 1, 1, 40, 39, 1, 20, 1, 1},   // more taps than pixels of most rows
	} {
		for _, op := range convOps {
			for _, typ := range floats {
				attrs, in := g.call(op, typ)
				switch cost := op.Cost(attrs, in, mustInfer(t, op, attrs, in)); {
				case cost > 60_000_000:
					t.Fatalf("%v: the reference would take seconds", g)
				case cost > 100_000 && testing.Short():
					continue
				}
				agree(t, op, kernels.Case{Attrs: attrs, In: in, Tolerance: g.tolerance(op)}, r.Uint64())
				if typ == arena.Float32 {
					to := []arena.DType{arena.BFloat16, arena.Float16}[r.IntN(2)]
					attrs, in = anyRoundedConv(r, attrs, in, to)
					agree(t, op, kernels.Case{Attrs: attrs, In: in, Tolerance: g.tolerance(op)}, r.Uint64())
				}
			}
		}
	}
}

// tolerance is that of the operations' own cases: for sums of so many terms.
func (g geometry) tolerance(op *kernels.Op) float64 {
	terms := g.in / g.groups * g.kernel * g.kernel
	switch op {
	case kernels.ConvGradInput:
		terms = g.out / g.groups * g.kernel * g.kernel
	case kernels.ConvGradWeight:
		terms = g.batch * g.y() * g.y()
	}
	return 1e-5 + 3e-7*float64(terms)
}

// anyRoundedConv is a call with factors that are rounded, and stored in any way.
func anyRoundedConv(r *rand.Rand, attrs any, in []kernels.Spec, to arena.DType) (any, []kernels.Spec) {
	stored := []arena.DType{arena.Float32, to}
	return roundedConv(attrs, in, to, stored[r.IntN(2)], stored[r.IntN(2)])
}

// roundedConv is a call with factors that are rounded, and stored so.
func roundedConv(attrs any, in []kernels.Spec, to, first, second arena.DType) (any, []kernels.Spec) {
	in = slices.Clone(in)
	in[0].Type, in[1].Type = first, second
	switch a := attrs.(type) {
	case kernels.ConvAttrs:
		a.ComputeType = to
		attrs = a
	case kernels.ConvGradAttrs:
		a.ComputeType = to
		attrs = a
	}
	return attrs, in
}

func mustInfer(t testing.TB, op *kernels.Op, attrs any, in []kernels.Spec) []kernels.Spec {
	t.Helper()
	out, err := op.Infer(attrs, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzConv(f *testing.F) {
	f.Add(uint64(1), byte(2), byte(3), byte(5), byte(9), byte(8), byte(3), byte(3), byte(1), byte(1), byte(1), byte(1), byte(0))
	f.Add(uint64(2), byte(1), byte(2), byte(2), byte(17), byte(33), byte(1), byte(4), byte(2), byte(0), byte(2), byte(2), byte(1))
	f.Add(uint64(3), byte(1), byte(2), byte(3), byte(4), byte(5), byte(3), byte(3), byte(0), byte(1), byte(0), byte(0), byte(0x13))
	f.Add(uint64(4), byte(1), byte(2), byte(2), byte(17), byte(33), byte(1), byte(4), byte(2), byte(0), byte(2), byte(2), byte(0x20))
	f.Add(uint64(5), byte(1), byte(2), byte(3), byte(4), byte(5), byte(3), byte(3), byte(0), byte(1), byte(0), byte(0), byte(0x53))
	f.Add(uint64(6), byte(1), byte(2), byte(2), byte(17), byte(33), byte(1), byte(4), byte(2), byte(0), byte(2), byte(2), byte(0x13))
	f.Add(uint64(7), byte(2), byte(0), byte(0), byte(17), byte(33), byte(2), byte(2), byte(0), byte(1), byte(0), byte(3), byte(0x09))
	f.Fuzz(func(t *testing.T, seed uint64, batch, in, out, h, w, kh, kw, stride, pad, dilation, groups, kind byte) {
		pick := func(b byte, n int) int { return 1 + int(b)%n }
		g := pick(groups, 4)
		a := kernels.ConvAttrs{
			Stride: [2]int{pick(stride, 4), pick(stride/16, 4)}, Pad: [2]int{int(pad) % 4, int(pad) / 16 % 4},
			Dilation: [2]int{pick(dilation, 3), pick(dilation/16, 3)}, Groups: g, Bias: kind&1 != 0, Norm: seed&4 != 0,
			Act: []*kernels.Op{nil, kernels.ReLU, kernels.Tanh, kernels.Sigmoid}[kind>>1&3],
		}
		typ := floats[kind>>3&1]
		r := rand.New(rand.NewPCG(seed, 2))
		run := func(op *kernels.Op, attrs any, in []kernels.Spec, tolerance float64) {
			if to := []arena.DType{0, arena.BFloat16, arena.Float16}[kind>>5%3]; to != 0 && typ == arena.Float32 {
				attrs, in = anyRoundedConv(r, attrs, in, to)
			}
			agree(t, op, kernels.Case{Attrs: attrs, In: in, Tolerance: tolerance}, seed)
		}
		x := kernels.Spec{Type: typ, Shape: kernels.Shape{pick(batch, 9), g * pick(in, 20), pick(h, 40), pick(w, 40)}}
		k := kernels.Spec{Type: typ, Shape: kernels.Shape{g * pick(out, 20), x.Shape[1] / g, pick(kh, 6), pick(kw, 6)}}
		if kind>>4&1 != 0 { // by tiles of 2x2 pixels
			a.Stride, a.Dilation, a.Groups = both(1), both(1), 1
			x.Shape = kernels.Shape{pick(batch, 3), 31 + pick(in, 9), 3 + pick(h, 8), 3 + pick(w, 8)}
			k.Shape = kernels.Shape{31 + pick(out, 9), x.Shape[1], 3, 3}
		}
		operands := []kernels.Spec{x, k}
		vector := kernels.Spec{Type: typ, Shape: k.Shape[:1]}
		if a.Bias {
			operands = append(operands, vector)
		}
		if a.Norm {
			operands = append(operands, vector, vector, vector)
		}
		y, err := kernels.Conv.Infer(a, operands)
		if err != nil || kernels.Conv.Cost(a, operands, y) > 4_000_000 {
			return
		}
		grad := kernels.ConvGradAttrs{Stride: a.Stride, Pad: a.Pad, Dilation: a.Dilation, Groups: a.Groups}
		sum := func(n int) float64 { return 1e-5 + 3e-7*float64(n) } // as in the operations' own cases
		run(kernels.Conv, a, operands, sum(k.Shape[1:].Elems()))
		grad.Size = [2]int(x.Shape[2:])
		run(kernels.ConvGradInput, grad, []kernels.Spec{k, y[0]}, sum(k.Shape.Elems()/k.Shape[1]))
		grad.Size = [2]int(k.Shape[2:])
		run(kernels.ConvGradWeight, grad, []kernels.Spec{x, y[0]}, sum(y[0].Shape.Elems()/y[0].Shape[1]))
	})
}
