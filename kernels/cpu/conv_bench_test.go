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
	{8, 64, 64, 56, 3, 1, 1, 1, 64},
	{4, 64, 64, 112, 3, 2, 1, 1, 64},
}

func (g geometry) String() string {
	return fmt.Sprintf("%d-%d/%d²/kernel=%d/stride=%d/groups=%d", g.in, g.out, g.size, g.kernel, g.stride, g.groups)
}

func BenchmarkConv(b *testing.B) {
	for _, g := range convShapes {
		for _, op := range convOps {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%v/%s/threads=%d", g, op.Name, threads), func(b *testing.B) {
					attrs, in := g.call(op, arena.Float32)
					benchmarkConv(b, op, attrs, in, cpu.Options{Threads: threads})
				})
			}
		}
	}
}

// BenchmarkRoundedConv compares float32 with factors that are rounded: "float32": read from float32, "half": both stored in 16 bits.
func BenchmarkRoundedConv(b *testing.B) {
	for _, g := range convShapes {
		for _, op := range convOps {
			for _, level := range []cpu.Instructions{cpu.AVX512BF16, cpu.AVX512, cpu.AVX2} {
				run := func(what string, to, stored arena.DType) {
					b.Run(fmt.Sprintf("%v/%s/%v/%s", g, op.Name, level, what), func(b *testing.B) {
						attrs, in := g.call(op, arena.Float32)
						attrs, in = roundedConv(attrs, in, to, stored, stored)
						benchmarkConv(b, op, attrs, in, cpu.Options{Threads: 1, Instructions: level})
					})
				}
				run("float32", 0, arena.Float32)
				for _, to := range []arena.DType{arena.BFloat16, arena.Float16} {
					run(to.String()+"/float32", to, arena.Float32)
					run(to.String()+"/half", to, to)
				}
			}
		}
	}
}

// benchmarkConv times a call, without what brings its operands back.
func benchmarkConv(b *testing.B, op *kernels.Op, attrs any, in []kernels.Spec, o cpu.Options) {
	d := cputest.Open(b, o)
	defer d.Close()
	r, _ := random(b)
	u := newUse(b, r, d, op, kernels.Case{Attrs: attrs, In: in})
	defer u.close(b)
	for b.Loop() {
		if err := u.prog.Launch(u.stream); err != nil {
			b.Fatal(err)
		}
	}
	out := kernels.Specs(u.call.Out)
	b.ReportMetric(float64(op.Cost(attrs, in, out))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(float64(u.call.Work.Size)/1024, "KiB")
}
