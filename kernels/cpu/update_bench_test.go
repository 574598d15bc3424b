package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// A streamed op is one whose speed out of cache is that of memory.
type streamed struct {
	name    string
	op      *kernels.Op
	attrs   any
	in      func(n int) []kernels.Spec
	touches int // times that n elements are read or written
}

func streamedOps() []streamed {
	f := func(shape ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: shape} }
	states := func(k int) func(n int) []kernels.Spec {
		return func(n int) []kernels.Spec {
			in := []kernels.Spec{f(n), f(n), kernels.GuardSpec, kernels.ControlsSpec}
			for range k {
				in = append(in, f(n))
			}
			return in
		}
	}
	compact := func(of func(kernels.Spec) []kernels.State) func(n int) []kernels.Spec {
		return func(n int) []kernels.Spec {
			in := states(0)(n)
			for _, s := range of(in[0]) {
				in = append(in, s.Spec)
			}
			return in
		}
	}
	one := func(n int) []kernels.Spec { return []kernels.Spec{f(n)} }
	adam := kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	clipped := adam
	clipped.ClipValue, clipped.Decay = 1, 1e-4
	axes := func(a ...int) kernels.ReduceAttrs { return kernels.ReduceAttrs{Axes: a} }
	return []streamed{
		{"copy", kernels.Reshape, nil, one, 2},
		{"fill", kernels.Fill, nil, func(int) []kernels.Spec { return nil }, 1},
		{"sgd", kernels.SGD, kernels.SGDAttrs{}, states(0), 3},
		{"momentum", kernels.Momentum, kernels.MomentumAttrs{Momentum: 0.9}, states(1), 5},
		{"rmsprop", kernels.RMSProp, kernels.RMSPropAttrs{Rho: 0.9, Epsilon: 1e-8}, states(1), 5},
		{"adam", kernels.Adam, adam, states(2), 7},
		{"adam_clipped_decayed", kernels.Adam, clipped, states(2), 7},
		{"adamw", kernels.AdamW, adam, states(2), 7},
		{"adam8", kernels.Adam8, kernels.Adam8Attrs{AdamAttrs: adam}, compact(kernels.Adam8States), 4}, // a byte is a quarter
		{"adam16", kernels.Adam16, kernels.Adam16Attrs{AdamAttrs: adam}, compact(kernels.Adam16States), 5},
		{"adafactor", kernels.Adafactor, kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Relative: true, Least: 1e-3}, func(n int) []kernels.Spec {
			p := f(over(n, 512), 512)
			rows, columns := factorSpecs(p)
			return []kernels.Spec{p, p, kernels.GuardSpec, kernels.ControlsSpec, rows, columns}
		}, 6},
		{"lion", kernels.Lion, kernels.LionAttrs{Beta1: 0.9, Beta2: 0.99}, states(1), 5},
		{"check_finite", kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: 1},
			func(n int) []kernels.Spec { return []kernels.Spec{f(n), kernels.GuardSpec} }, 1},
		{"sum_squares", kernels.SumSquares, nil, one, 1},
		{"sum", kernels.Sum, axes(), one, 1},
		{"max", kernels.Max, axes(), one, 1},
		{"sum_rows_10", kernels.Sum, axes(1), func(n int) []kernels.Spec { return []kernels.Spec{f(n/10, 10)} }, 1},
		{"sum_rows_512", kernels.Sum, axes(1), func(n int) []kernels.Spec { return []kernels.Spec{f(over(n, 512), 512)} }, 1},
		{"sum_columns_10", kernels.Sum, axes(0), func(n int) []kernels.Spec { return []kernels.Spec{f(n/10, 10)} }, 1},
		{"sum_columns_512", kernels.Sum, axes(0), func(n int) []kernels.Spec { return []kernels.Spec{f(over(n, 512), 512)} }, 1},
		{"sum_channels_7x7", kernels.Sum, axes(0, 2, 3), func(n int) []kernels.Spec { return []kernels.Spec{f(over(n, 64*49), 64, 7, 7)} }, 1},
		{"sum_channels_28x28", kernels.Sum, axes(0, 2, 3), func(n int) []kernels.Spec { return []kernels.Spec{f(over(n, 16*784), 16, 28, 28)} }, 1},
		{"sum_images_7x7", kernels.Sum, axes(2, 3), func(n int) []kernels.Spec { return []kernels.Spec{f(over(n, 64*49), 64, 7, 7)} }, 1},
		{"max_columns_512", kernels.Max, axes(0), func(n int) []kernels.Spec { return []kernels.Spec{f(over(n, 512), 512)} }, 1},
	}
}

// BenchmarkStreams times ops at sizes from a bias to what no cache holds. An element of an update is a parameter. GB/s counts every read and write of memory.
func BenchmarkStreams(b *testing.B) {
	for _, s := range streamedOps() {
		for _, n := range []int{10, 4 << 10, 392 << 10, 8 << 20} {
			for _, threads := range []int{1, 2} {
				if threads > 1 && n < 16<<10 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%d/%d", s.name, n, threads), func(b *testing.B) { s.time(b, n, threads) })
			}
		}
	}
}

func (s *streamed) time(b *testing.B, n, threads int) {
	attrs := s.attrs
	switch s.op {
	case kernels.Reshape:
		attrs = kernels.ReshapeAttrs{Shape: kernels.Shape{n}}
	case kernels.Fill:
		attrs = kernels.FillAttrs{Type: arena.Float32, Shape: kernels.Shape{n}, Value: 0.5}
	}
	c := kernels.Case{Attrs: attrs, In: s.in(n)}
	c.Fill = func(_ *rand.Rand, k int, v []float64) {
		switch {
		case c.In[k].Type == arena.Int32:
			return
		case c.In[k].Equal(kernels.ControlsSpec):
			copy(v, []float64{1e-3, 1, 0.1, 0.001})
			return
		}
		for i := range v {
			v[i] = float64(i%1001) / 1001
		}
	}
	u := newUse(b, rand.New(rand.NewPCG(1, 2)), open(b, cpu.Options{Threads: threads}), s.op, c)
	elems := n
	if len(c.In) > 0 {
		elems = c.In[0].Shape.Elems()
	}
	for b.Loop() {
		if err := u.prog.Launch(u.stream); err != nil {
			b.Fatal(err)
		}
	}
	elem := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(elems)
	b.ReportMetric(elem, "ns/elem")
	b.ReportMetric(float64(s.touches*4)/elem, "GB/s")
}
