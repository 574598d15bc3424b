package cpu_test

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// convShapes lists the layers of small convolutional networks, at batch 64.
var convShapes = []geometry{
	{64, 1, 32, 28, 3, 1, 1, 1, 1},
	{64, 32, 64, 14, 3, 1, 1, 1, 1},
	{64, 3, 64, 32, 3, 1, 1, 1, 1},
	{64, 64, 64, 32, 3, 1, 1, 1, 1},
	{64, 64, 128, 16, 3, 1, 1, 1, 1},
	{64, 128, 128, 16, 3, 1, 1, 1, 1},
	{64, 128, 256, 8, 3, 1, 1, 1, 1},
	{64, 256, 256, 8, 3, 1, 1, 1, 1},
	{64, 64, 128, 16, 1, 1, 0, 1, 1},
	{64, 64, 128, 32, 3, 2, 1, 1, 1},
	{64, 128, 128, 16, 3, 1, 1, 1, 128},
}

func (g geometry) String() string {
	return fmt.Sprintf("%d-%d/%d²/kernel=%d/stride=%d/groups=%d", g.in, g.out, g.size, g.kernel, g.stride, g.groups)
}

func BenchmarkConv(b *testing.B) {
	for _, g := range convShapes {
		for _, op := range []*kernels.Op{kernels.Conv, kernels.ConvGradInput, kernels.ConvGradWeight} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%v/%s/threads=%d", g, op.Name, threads), func(b *testing.B) {
					d := cputest.Open(b, cpu.Options{Threads: threads})
					defer d.Close()
					attrs, in := g.call(op, arena.Float32)
					r, _ := random(b)
					u := newUse(b, r, d, op, kernels.Case{Attrs: attrs, In: in})
					defer u.close(b)
					for b.Loop() {
						u.launch(b)
					}
					out := kernels.Specs(u.call.Out)
					b.ReportMetric(float64(op.Cost(attrs, in, out))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
