package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// sized names a call by its shape: maxPool64x64x32x32.
func sized(op string, s kernels.Shape) string {
	return op + strings.Trim(strings.ReplaceAll(s.String(), ", ", "x"), "()")
}

// timedNorms are the calls of normalization, pooling, dropout and embedding of networks at batch 64 and 128.
func timedNorms() []timed {
	f := func(dims ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: dims} }
	var all []timed
	for _, s := range []kernels.Shape{{64, 64, 32, 32}, {64, 128, 16, 16}, {64, 256, 8, 8}, {64, 512, 7, 7}, {128, 512}} {
		x, c := kernels.Spec{Type: arena.Float32, Shape: s}, f(s[1])
		a := kernels.BatchNormAttrs{Eps: 1e-5, ReLU: true}
		all = append(all, timed{sized("batchNorm", s), kernels.BatchNorm, a, []kernels.Spec{x, c, c}},
			timed{sized("batchNormGrad", s), kernels.BatchNormGrad, a, []kernels.Spec{x, c, c, c, c, x}})
	}
	halves := kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}
	for _, s := range []kernels.Shape{{64, 64, 32, 32}, {64, 32, 28, 28}, {64, 64, 14, 14}} {
		y := kernels.Shape{s[0], s[1], s[2] / 2, s[3] / 2}
		a := kernels.PoolGradAttrs{PoolAttrs: halves, Size: [2]int{s[2], s[3]}}
		all = append(all, timed{sized("maxPool", s), kernels.MaxPool, halves, []kernels.Spec{f(s...)}},
			timed{sized("maxPoolGrad", s), kernels.MaxPoolGrad, a, []kernels.Spec{{Type: arena.Uint8, Shape: y}, f(y...)}},
			timed{sized("avgPool", s), kernels.AvgPool, halves, []kernels.Spec{f(s...)}},
			timed{sized("avgPoolGrad", s), kernels.AvgPoolGrad, a, []kernels.Spec{f(y...)}})
	}
	three := kernels.PoolAttrs{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, PadEnd: [2]int{1, 1}}
	threeGrad := kernels.PoolGradAttrs{PoolAttrs: three, Size: [2]int{32, 32}}
	rows := f(128, 64, 256)
	index := kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{8192}}
	return append(all,
		timed{"maxPool3x3", kernels.MaxPool, three, []kernels.Spec{f(64, 64, 32, 32)}},
		timed{"maxPoolGrad3x3", kernels.MaxPoolGrad, threeGrad,
			[]kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{64, 64, 16, 16}}, f(64, 64, 16, 16)}},
		timed{"avgPool3x3", kernels.AvgPool, three, []kernels.Spec{f(64, 64, 32, 32)}},
		timed{"avgPoolGrad3x3", kernels.AvgPoolGrad, threeGrad, []kernels.Spec{f(64, 64, 16, 16)}},
		timed{"layerNorm", kernels.LayerNorm, kernels.LayerNormAttrs{Eps: 1e-5}, []kernels.Spec{rows, f(256), f(256)}},
		timed{"layerNormGrad", kernels.LayerNormGrad, kernels.LayerNormAttrs{Eps: 1e-5}, []kernels.Spec{rows, f(256), f(8192), f(8192), rows}},
		timed{"groupNorm", kernels.GroupNorm, kernels.GroupNormAttrs{Groups: 8, Eps: 1e-5}, []kernels.Spec{f(64, 64, 32, 32), f(64), f(64)}},
		timed{"groupNormGrad", kernels.GroupNormGrad, kernels.GroupNormAttrs{Groups: 8, Eps: 1e-5},
			[]kernels.Spec{f(64, 64, 32, 32), f(64), f(64, 8), f(64, 8), f(64, 64, 32, 32)}},
		timed{"dropout", kernels.Dropout, kernels.DropoutAttrs{Rate: 0.5, Seed: 1}, []kernels.Spec{rows, controls}},
		timed{"scatter", kernels.Scatter, kernels.ScatterAttrs{Rows: 1000}, []kernels.Spec{index, f(8192, 64)}},
	)
}

// BenchmarkNorms times the operations beside a copy of the same bytes, on one thread and two. MB/s counts each operand once.
func BenchmarkNorms(b *testing.B) {
	for _, c := range timedNorms() {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%d", c.name, threads), func(b *testing.B) {
				d := open(b, cpu.Options{Threads: threads})
				values := c.values()
				if c.in[0].Type == arena.Int32 {
					fill := values.Fill
					values.Fill = func(r *rand.Rand, k int, v []float64) {
						if fill(r, k, v); k == 0 {
							for i := range v {
								v[i] = float64(r.IntN(1000))
							}
						}
					}
				}
				timeUse(b, newUse(b, rand.New(rand.NewPCG(1, 2)), d, c.op, values))
			})
		}
	}
	for _, mib := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("copy%dMiB", 2*mib), func(b *testing.B) {
			from, to := make([]byte, mib<<20), make([]byte, mib<<20)
			b.SetBytes(int64(2 * mib << 20))
			for b.Loop() {
				copy(to, from)
			}
		})
	}
}
