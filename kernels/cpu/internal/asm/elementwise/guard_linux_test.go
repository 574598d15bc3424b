package elementwise_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

func TestVectorsTouchNothingBesideTheirOperands(t *testing.T) {
	dst, a, b := asmtest.NewPage(t), asmtest.NewPage(t), asmtest.NewPage(t)
	for _, x := range [][]float32{asmtest.Elements[float32](a, len(a)/4, false), asmtest.Elements[float32](b, len(b)/4, false)} {
		for i := range x {
			x[i] = 1.5
		}
	}
	unary, binary := asmtest.ElementwiseOps(t)
	for _, level := range asmtest.Levels() {
		for _, atEnd := range []bool{false, true} {
			for n := range 141 {
				for _, op := range unary {
					elementwise.Unary[float32](level, op, asmtest.AttrsFor(op))(asmtest.Elements[float32](dst, n, atEnd), asmtest.Elements[float32](a, n, atEnd))
					elementwise.Unary[float64](level, op, asmtest.AttrsFor(op))(asmtest.Elements[float64](dst, n, atEnd), asmtest.Elements[float64](a, n, atEnd))
				}
				for _, op := range binary {
					elementwise.Binary[float32](level, op, asmtest.AttrsFor(op))(asmtest.Elements[float32](dst, n, atEnd), asmtest.Elements[float32](a, n, atEnd), asmtest.Elements[float32](b, n, atEnd))
					elementwise.Binary[float64](level, op, asmtest.AttrsFor(op))(asmtest.Elements[float64](dst, n, atEnd), asmtest.Elements[float64](a, n, atEnd), asmtest.Elements[float64](b, n, atEnd))
				}
			}
		}
	}
}
