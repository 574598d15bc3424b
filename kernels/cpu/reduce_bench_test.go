package cpu_test

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
)

// BenchmarkReducedChains times products that are summed at once, beside the sum alone of as many elements in memory.
func BenchmarkReducedChains(b *testing.B) {
	steps := []kernels.Step{{Op: kernels.Mul, A: 0, B: 1}}
	for _, f := range []folded{
		{kernels.Shape{128, 10}, nil}, {kernels.Shape{128, 512}, nil}, {kernels.Shape{128, 512}, []int{1}}, {kernels.Shape{128, 512}, []int{0}},
		{kernels.Shape{8192, 64}, []int{0}}, {kernels.Shape{64, 32, 14, 14}, []int{0, 2, 3}}, {kernels.Shape{64, 32, 7, 7}, []int{0, 2, 3}},
	} {
		x, a := kernels.Spec{Type: floats[0], Shape: f.shape}, kernels.ReduceAttrs{Axes: f.axes}
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("chain/%v/%v/%d", f.shape, f.axes, threads), func(b *testing.B) {
				attrs := &kernels.ChainAttrs{Steps: steps, Reduce: kernels.Sum, ReduceAttrs: a}
				timeCall(b, timed{op: kernels.Chain, attrs: attrs, in: []kernels.Spec{x, x}}, threads)
			})
			b.Run(fmt.Sprintf("sum/%v/%v/%d", f.shape, f.axes, threads), func(b *testing.B) {
				timeCall(b, timed{op: kernels.Sum, attrs: a, in: []kernels.Spec{x}}, threads)
			})
		}
	}
}
