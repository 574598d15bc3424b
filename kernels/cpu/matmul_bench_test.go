package cpu_test

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// w1 lists the products of a training step of an MLP, 784-512-256-10 at batch 128.
func w1(typ arena.DType) []product {
	var list []product
	for _, v := range cpu.MatMulVariants(typ) {
		for _, s := range [][3]int{{128, 784, 512}, {128, 512, 256}, {128, 256, 10}} {
			b, k, n := s[0], s[1], s[2]
			list = append(list,
				product{v, typ, 0, b, k, n, kernels.MatMulAttrs{Bias: true, Act: kernels.Relu}},
				product{v, typ, 0, k, b, n, kernels.MatMulAttrs{TransA: true}},
				product{v, typ, 0, b, n, k, kernels.MatMulAttrs{TransB: true}})
		}
	}
	return list
}

// odd lists products that are small, skinny, many or large.
func odd(typ arena.DType) []product {
	var list []product
	for _, v := range cpu.MatMulVariants(typ) {
		for _, s := range [][4]int{{0, 1, 784, 512}, {0, 512, 784, 1}, {0, 512, 1, 784}, {0, 8, 8, 8}, {64, 16, 32, 16}, {0, 512, 512, 512}} {
			list = append(list, product{v, typ, s[0], s[1], s[2], s[3], kernels.MatMulAttrs{}})
		}
		list = append(list, product{v, typ, 0, 784, 512, 1, kernels.MatMulAttrs{TransA: true}},
			product{v, typ, 0, 1, 784, 512, kernels.MatMulAttrs{TransB: true}})
	}
	return list
}

func BenchmarkMatMul(b *testing.B) {
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		for _, p := range append(w1(typ), odd(typ)...) {
			if p.variant == "wide" {
				continue
			}
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%v/threads=%d", p, threads), func(b *testing.B) {
					pool := cpu.NewPool(threads)
					defer pool.Close()
					o := p.layOut(threads)
					o.fill(newRand())
					run, err := cpu.BindMatMul(p.variant, pool, o.call, o.mem, o.base)
					if err != nil {
						b.Fatal(err)
					}
					for b.Loop() {
						run()
					}
					flops := 2 * float64(max(p.batch, 1)) * float64(p.m) * float64(p.k) * float64(p.n) * float64(b.N)
					b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
