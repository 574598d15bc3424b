package elementwise_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// BenchmarkVectors times the elementwise functions of each level on a tile in the first-level
// cache, and on 10 elements.
func BenchmarkVectors(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	x, y, dst := make([]float32, 1024), make([]float32, 1024), make([]float32, 1024)
	for i := range x {
		x[i], y[i] = r.Float32()*2, r.Float32()*2-1
	}
	time := func(name string, f func(n int)) {
		for _, n := range []int{1024, 10} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				for b.Loop() {
					f(n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
			})
		}
	}
	for _, op := range kernels.All() {
		for _, level := range asmtest.Levels() {
			name := fmt.Sprint(op.Name, "/", level)
			if op.Elem == nil || op == kernels.Decode {
				continue
			} else if f := elementwise.Unary[float32](level, op, asmtest.AttrsFor(op)); f != nil {
				time(name, func(n int) { f(dst[:n], x[:n]) })
			} else if f := elementwise.Binary[float32](level, op, asmtest.AttrsFor(op)); f != nil {
				time(name, func(n int) { f(dst[:n], x[:n], y[:n]) })
			}
		}
	}
}
