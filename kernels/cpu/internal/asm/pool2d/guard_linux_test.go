package pool2d_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/pool2d"
)

// Windows of 2x2 over images that end or begin at a page that faults have the bits of their twins.
func TestWindowsOf2x2MatchTheirTwinsInsideTheirOperands(t *testing.T) {
	r, seed := asmtest.Rand(t)
	image, result, place := asmtest.NewPage(t), asmtest.NewPage(t), asmtest.NewPage(t)
	kernels := func(k *pool2d.Kernels) []func(*pool2d.Args2x2) {
		return []func(*pool2d.Args2x2){k.Max2x2, k.Max2x2Grad, k.Avg2x2, k.Avg2x2Grad}
	}
	twins := kernels(pool2d.At(asm.Portable))
	for _, level := range asmtest.Levels() {
		for i, f := range kernels(pool2d.At(level)) {
			for width := 1; width <= 70; width++ {
				const rows = 3
				atEnd := width%2 == 0
				a := pool2d.Args2x2{X: asmtest.Elements[float32](image, 2*rows*2*width, atEnd), Y: asmtest.Elements[float32](result, rows*width, atEnd),
					Index: asmtest.Elements[uint8](place, rows*width, atEnd), Rows: rows, Width: width, Stride: 2 * width}
				for j := range a.X {
					a.X[j] = float32(r.IntN(5))
				}
				for j := range a.Y {
					a.Y[j], a.Index[j] = float32(r.IntN(5)), uint8(r.IntN(4))
				}
				b := a
				b.X, b.Y, b.Index = slices.Clone(a.X), slices.Clone(a.Y), slices.Clone(a.Index)
				f(&a)
				twins[i](&b)
				if !slices.Equal(a.X, b.X) || !slices.Equal(a.Y, b.Y) || !slices.Equal(a.Index, b.Index) {
					t.Fatalf("kernel %d of width %d at level %d differs from its twin (seed %d)", i, width, level, seed)
				}
			}
		}
	}
}
