package cpu_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// A named product says where it occurs.
type named struct {
	name    string
	m, n, k int
	attrs   kernels.MatMulAttrs
}

var (
	forward = kernels.MatMulAttrs{Bias: true, Act: kernels.ReLU}
	weight  = kernels.MatMulAttrs{TransA: true} // gradient of
	input   = kernels.MatMulAttrs{TransB: true} // gradient of
)

// mlp lists the products of a training step of an MLP, 784-512-256-10 at batch 128.
var mlp = []named{
	{"forward1", 128, 512, 784, forward}, {"forward2", 128, 256, 512, forward}, {"forward3", 128, 10, 256, forward},
	{"weight1", 784, 512, 128, weight}, {"weight2", 512, 256, 128, weight}, {"weight3", 256, 10, 128, weight},
	{"input2", 128, 512, 256, input}, {"input3", 128, 256, 10, input},
}

// others are products that are large, long, skinny or small.
var others = []named{
	{"512", 512, 512, 512, kernels.MatMulAttrs{}}, {"1024", 1024, 1024, 1024, kernels.MatMulAttrs{}},
	{"2048", 2048, 2048, 2048, kernels.MatMulAttrs{}}, {"long", 64, 576, 16384, input}, {"patches", 64, 1024, 576, kernels.MatMulAttrs{}},
	{"narrow", 64, 10, 8192, weight}, {"narrow4", 256, 10, 4096, weight}, {"pointwise", 64, 3136, 64, kernels.MatMulAttrs{}}, {"tall", 8192, 64, 64, kernels.MatMulAttrs{}},
	{"fourRows", 4, 512, 784, forward}, {"sixteenRows", 16, 512, 784, forward}, {"row", 1, 512, 784, kernels.MatMulAttrs{}}, {"rowTrans", 1, 784, 512, input}, {"column", 512, 1, 784, kernels.MatMulAttrs{}},
	{"outer", 512, 784, 1, kernels.MatMulAttrs{}}, {"tenColumns", 2048, 10, 512, kernels.MatMulAttrs{}},
	{"small16", 16, 16, 32, forward}, {"small4", 16, 32, 4, forward},
}

// typical returns the products of both lists for all variants.
func typical(typ arena.DType) []product {
	var list []product
	for _, v := range cpu.MatMulVariants(typ) {
		for _, s := range slices.Concat(mlp, others) {
			list = append(list, newProduct(v, typ, 0, s.m, s.k, s.n, s.attrs))
		}
	}
	for _, v := range cpu.RoundingVariants(typ, arena.BFloat16) {
		for _, s := range slices.Concat(mlp, others) {
			list = append(list, newProduct(v, typ, 0, s.m, s.k, s.n, s.attrs).rounded(newRand(), arena.BFloat16))
		}
	}
	return list
}

func BenchmarkMatMul(b *testing.B) {
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		for _, s := range slices.Concat(mlp, others) {
			for _, v := range cpu.MatMulVariants(typ) {
				if v == "wide" {
					continue
				}
				for _, threads := range []int{1, 2} {
					p := newProduct(v, typ, 0, s.m, s.k, s.n, s.attrs)
					b.Run(fmt.Sprintf("%v/%s/threads=%d/%s", typ, v, threads, s.name), func(b *testing.B) {
						benchmarkProduct(b, p, threads)
					})
				}
			}
		}
	}
}

// BenchmarkRoundedMatMul compares products of float32 with such whose factors are rounded: "float32": read from float32, "half": both stored
// in 16 bits, "mixed": A is.
func BenchmarkRoundedMatMul(b *testing.B) {
	plain := kernels.MatMulAttrs{}
	for _, s := range slices.Concat([]named{{"128x784x512", 128, 512, 784, plain}, {"512", 512, 512, 512, plain}, {"1024", 1024, 1024, 1024, plain}}, mlp, others) {
		for _, threads := range []int{1, 2} {
			run := func(what, v string, to arena.DType, stored [2]arena.DType) {
				p := newProduct(v, arena.Float32, 0, s.m, s.k, s.n, s.attrs)
				p.attrs.ComputeType, p.stored = to, stored
				b.Run(fmt.Sprintf("%s/threads=%d/%s", s.name, threads, what), func(b *testing.B) { benchmarkProduct(b, p, threads) })
			}
			for _, v := range cpu.MatMulVariants(arena.Float32) {
				if v != "wide" {
					run(v, v, 0, [2]arena.DType{})
				}
			}
			for _, to := range []arena.DType{arena.BFloat16, arena.Float16} {
				for _, v := range cpu.RoundingVariants(arena.Float32, to) {
					if strings.HasPrefix(v, "wide") {
						continue
					}
					for _, w := range []struct {
						name   string
						stored [2]arena.DType
					}{{"float32", [2]arena.DType{}}, {"mixed", [2]arena.DType{to, arena.Float32}}, {"half", [2]arena.DType{to, to}}} {
						run(fmt.Sprintf("%s/%v/%s", v, to, w.name), v, to, w.stored)
					}
				}
			}
		}
	}
}

func benchmarkProduct(b *testing.B, p product, threads int) {
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
	flops := 2 * float64(p.m) * float64(p.k) * float64(p.n) * float64(b.N)
	b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
