package cpu_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// broadcastShapes are results, and operands that the engine reads in place, cut at the ends of runs, filled with one number
// or gathered.
var broadcastShapes = []struct{ out, a, b kernels.Shape }{
	{kernels.Shape{40, 784}, kernels.Shape{784}, kernels.Shape{40, 1}},
	{kernels.Shape{7, 3000}, kernels.Shape{3000}, kernels.Shape{7, 1}},
	{kernels.Shape{900, 10}, kernels.Shape{10}, kernels.Shape{900, 1}},
	{kernels.Shape{5, 6, 1300}, kernels.Shape{6, 1}, kernels.Shape{1300}},
	{kernels.Shape{9, 8, 14, 14}, kernels.Shape{8, 1, 1}, kernels.Shape{14}},
	{kernels.Shape{9, 64, 7, 7}, kernels.Shape{1, 64, 1, 1}, kernels.Shape{9, 1, 7, 7}},
	{kernels.Shape{3, 4, 28, 28}, kernels.Shape{4, 1, 1}, kernels.Shape{}},
	{kernels.Shape{2, 3, 1024, 5}, kernels.Shape{3, 1, 5}, kernels.Shape{2, 1, 1024, 1}},
	{kernels.Shape{20_011}, kernels.Shape{1}, kernels.Shape{20_011}},
	{kernels.Shape{4, 5000}, kernels.Shape{4, 1}, kernels.Shape{5000}},
}

func TestBroadcastOperandsHaveTheBitsOfWholeOnes(t *testing.T) {
	r, seed := random(t)
	devices := []*cpu.Device{open(t, cpu.Options{Threads: 1}), open(t, cpu.Options{Threads: 3})}
	for _, typ := range floats {
		for _, c := range broadcastShapes {
			for _, end := range []kernels.ReduceAttrs{{}, {Axes: []int{0}}, {Axes: []int{len(c.out) - 1}}} {
				attrs := &kernels.ChainAttrs{Steps: []kernels.Step{
					{Op: kernels.Sub, A: 1, B: 0}, {Op: kernels.Mul, A: 3, B: 2}, {Op: kernels.Sub, A: 2, B: 4}, {Op: kernels.Tanh, A: 5, B: -1}}}
				if end.Axes != nil {
					attrs.Reduce, attrs.ReduceAttrs = kernels.Sum, end
				}
				spec := func(s kernels.Shape) kernels.Spec { return kernels.Spec{Type: typ, Shape: s} }
				in := []kernels.Spec{spec(c.a), spec(c.out), spec(c.b)}
				u := newUse(t, r, devices[0], kernels.Chain, kernels.Case{Attrs: attrs, In: in})
				data := make([][]byte, len(in))
				for k, o := range u.call.In {
					data[k] = append([]byte(nil), u.bytes(o)[:o.Bytes()]...)
				}
				u.close(t)
				whole := make([][]byte, len(in))
				for k := range in {
					_, whole[k] = eval(t, devices[0], kernels.Broadcast, kernels.BroadcastAttrs{Shape: c.out}, in[k:k+1], data[k:k+1])
				}
				_, want := eval(t, devices[0], kernels.Chain, attrs, []kernels.Spec{spec(c.out), spec(c.out), spec(c.out)}, whole)
				for _, d := range devices {
					if _, got := eval(t, d, kernels.Chain, attrs, in, data); !bytes.Equal(got, want) {
						t.Errorf("%v of %v with %v and %v, reduced along %v: other bits than of whole operands (seed %v)", typ, c.out, c.a, c.b, end.Axes, seed)
					}
				}
			}
		}
	}
}

// BenchmarkChains times chains of three and four steps: on data of the second-level cache, with broadcast operands, small ones.
func BenchmarkChains(b *testing.B) {
	f := func(shape ...int) kernels.Spec { return kernels.Spec{Type: floats[0], Shape: shape} }
	three := []kernels.Step{{Op: kernels.Mul, A: 0, B: 1}, {Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 2, Shift: 1}, A: 2, B: -1}, {Op: kernels.ReLU, A: 3, B: -1}}
	four := append(append([]kernels.Step(nil), three...), kernels.Step{Op: kernels.Add, A: 4, B: 0})
	for _, c := range []struct {
		steps []kernels.Step
		in    []kernels.Spec
	}{
		{three, []kernels.Spec{f(64 * 1024), f(64 * 1024)}},
		{four, []kernels.Spec{f(64 * 1024), f(64 * 1024)}},
		{four, []kernels.Spec{f(64 * 1024), f(1)}},
		{four, []kernels.Spec{f(128, 512), f(512)}},
		{four, []kernels.Spec{f(128, 512), f(128, 1)}},
		{four, []kernels.Spec{f(128, 10), f(10)}},
		{four, []kernels.Spec{f(16, 16, 14, 14), f(16, 1, 1)}},
		{four, []kernels.Spec{f(16, 64, 7, 7), f(64, 1, 1)}},
		{four, []kernels.Spec{f(4, 4, 56, 56), f(4, 1, 1)}},
		{four, []kernels.Spec{f(64), f(64)}},
	} {
		b.Run(fmt.Sprint(len(c.steps), "/", c.in[0].Shape, c.in[1].Shape), func(b *testing.B) {
			timeCall(b, timed{op: kernels.Chain, attrs: &kernels.ChainAttrs{Steps: c.steps}, in: c.in}, 1)
		})
	}
	b.Run("memcpy/65536", func(b *testing.B) {
		timeCall(b, timed{op: kernels.Reshape, attrs: kernels.ReshapeAttrs{Shape: kernels.Shape{64 * 1024}}, in: []kernels.Spec{f(64, 1024)}}, 1)
	})
}
