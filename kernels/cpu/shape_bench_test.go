package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// moves are ops that only move elements.
func moves() []timed {
	f := func(shape ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: shape} }
	u8 := func(shape ...int) kernels.Spec { return kernels.Spec{Type: arena.Uint8, Shape: shape} }
	f64 := func(shape ...int) kernels.Spec { return kernels.Spec{Type: arena.Float64, Shape: shape} }
	turn := func(perm ...int) kernels.TransposeAttrs { return kernels.TransposeAttrs{Perm: perm} }
	to := func(shape ...int) kernels.BroadcastAttrs { return kernels.BroadcastAttrs{Shape: shape} }
	cut := func(start, end []int) kernels.SliceAttrs {
		return kernels.SliceAttrs{Start: start, End: end, Step: []int{1, 1}}
	}
	return []timed{
		{"copy", kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{512 * 784}}, []kernels.Spec{f(512, 784)}},
		{"transpose_784x512", kernels.Transpose, turn(1, 0), []kernels.Spec{f(784, 512)}},
		{"transpose_1024x1024", kernels.Transpose, turn(1, 0), []kernels.Spec{f(1024, 1024)}},
		{"transpose_128x10", kernels.Transpose, turn(1, 0), []kernels.Spec{f(128, 10)}},
		{"transpose_10x128", kernels.Transpose, turn(1, 0), []kernels.Spec{f(10, 128)}},
		{"transpose_4x4", kernels.Transpose, turn(1, 0), []kernels.Spec{f(4, 4)}},
		{"transpose_nchw_nhwc", kernels.Transpose, turn(0, 2, 3, 1), []kernels.Spec{f(32, 64, 14, 14)}},
		{"transpose_nhwc_nchw", kernels.Transpose, turn(0, 3, 1, 2), []kernels.Spec{f(32, 14, 14, 64)}},
		{"transpose_nhwc_nchw_u8", kernels.Transpose, turn(0, 3, 1, 2), []kernels.Spec{u8(128, 32, 32, 3)}},
		{"transpose_heads", kernels.Transpose, turn(0, 2, 1, 3), []kernels.Spec{f(8, 64, 8, 64)}},
		{"transpose_512x512_f64", kernels.Transpose, turn(1, 0), []kernels.Spec{f64(512, 512)}},
		{"broadcast_row", kernels.Broadcast, to(128, 512), []kernels.Spec{f(512)}},
		{"broadcast_column", kernels.Broadcast, to(128, 512), []kernels.Spec{f(128, 1)}},
		{"broadcast_channel_7x7", kernels.Broadcast, to(64, 64, 7, 7), []kernels.Spec{f(64, 1, 1)}},
		{"slice_columns", kernels.Slice, cut([]int{0, 8}, []int{784, 500}), []kernels.Spec{f(784, 512)}},
		{"unslice_columns", kernels.Unslice, kernels.UnsliceAttrs{Shape: kernels.Shape{784, 512}, Start: []int{0, 8}, Step: []int{1, 1}},
			[]kernels.Spec{f(784, 492)}},
		{"concat_columns", kernels.Concat, kernels.ConcatAttrs{Axis: 1}, []kernels.Spec{f(784, 256), f(784, 256)}},
		{"gather_3136B", kernels.Gather, nil, []kernels.Spec{f(1024, 784), labels}},
		{"gather_784B", kernels.Gather, nil, []kernels.Spec{u8(1024, 784), labels}},
	}
}

// BenchmarkMoves times ops that only move elements. GB/s counts what is written, twice, as a copy would.
func BenchmarkMoves(b *testing.B) {
	for _, m := range moves() {
		for _, threads := range []int{1, 2} {
			b.Run(m.name+[]string{"/1", "/2"}[threads-1], func(b *testing.B) {
				c := kernels.Case{Attrs: m.attrs, In: m.in}
				c.Fill = func(r *rand.Rand, k int, v []float64) {
					if c.In[k].Equal(labels) {
						for i := range v {
							v[i] = float64(r.IntN(10 + k*1000))
						}
					}
				}
				u := newUse(b, rand.New(rand.NewPCG(1, 2)), open(b, cpu.Options{Threads: threads}), m.op, c)
				for b.Loop() {
					if err := u.prog.Launch(u.stream); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(2*u.call.Out[0].Bytes())/float64(b.Elapsed().Nanoseconds())*float64(b.N), "GB/s")
			})
		}
	}
}
