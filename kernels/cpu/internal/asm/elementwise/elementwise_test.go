package elementwise_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

func TestEveryWidthOfVectorsGivesTheSameBits(t *testing.T) {
	if len(asmtest.Levels()) < 3 {
		t.Skip("needs a processor with AVX-512")
	}
	r, seed := asmtest.Rand(t)
	unary, binary := asmtest.ElementwiseOps(t)
	x := asmtest.Sample32(r, 400)
	y := append([]float32(nil), x...)
	r.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
	for _, op := range unary {
		testWidths(t, op, seed, x, x, func(i asm.Level, dst, a, _ []float32) {
			elementwise.Unary[float32](i, op, asmtest.AttrsFor(op))(dst, a)
		})
		testWidths(t, op, seed, wide(x), wide(x), func(i asm.Level, dst, a, _ []float64) {
			elementwise.Unary[float64](i, op, asmtest.AttrsFor(op))(dst, a)
		})
	}
	for _, op := range binary {
		testWidths(t, op, seed, x, y, func(i asm.Level, dst, a, b []float32) {
			elementwise.Binary[float32](i, op, asmtest.AttrsFor(op))(dst, a, b)
		})
		testWidths(t, op, seed, wide(x), wide(y), func(i asm.Level, dst, a, b []float64) {
			elementwise.Binary[float64](i, op, asmtest.AttrsFor(op))(dst, a, b)
		})
	}
}

// wide is x in float64.
func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// testWidths runs f with AVX2 and with AVX-512, at once and one element at a time.
func testWidths[T float32 | float64](t *testing.T, op *kernels.Op, seed any, x, y []T, f func(i asm.Level, dst, a, b []T)) {
	t.Helper()
	want, got := make([]T, len(x)), make([]T, len(x))
	f(asm.AVX2, want, x, y)
	f(asm.AVX512, got, x, y)
	for i := range x {
		var one [1]T
		f([]asm.Level{asm.AVX2, asm.AVX512}[i&1], one[:], x[i:i+1], y[i:i+1])
		if w := float64(want[i]); !asmtest.SameFloat(float64(got[i]), w) || !asmtest.SameFloat(float64(one[0]), w) {
			t.Errorf("%s(%g, %g) of %T: %g with AVX-512, %g with AVX2, %g alone (seed %v)", op.Name, x[i], y[i], x[i], got[i], want[i], one[0], seed)
			return
		}
	}
}

// tails are lengths around every step of the loops, on one element past the end nobody writes.
func TestVectorsWriteTheirElementsAndNoOthers(t *testing.T) {
	r, seed := asmtest.Rand(t)
	unary, binary := asmtest.ElementwiseOps(t)
	const most, mark = 200, 12345
	x, y := make([]float32, most), make([]float32, most)
	for i := range x {
		x[i], y[i] = r.Float32()*4+0.1, r.Float32()*4-2
	}
	for _, level := range asmtest.Levels() {
		for _, op := range append(unary, binary...) {
			f := func(dst, a, b []float32) { elementwise.Unary[float32](level, op, asmtest.AttrsFor(op))(dst, a) }
			if elementwise.Unary[float32](level, op, asmtest.AttrsFor(op)) == nil {
				f = elementwise.Binary[float32](level, op, asmtest.AttrsFor(op))
			}
			whole := make([]float32, most)
			f(whole, x, y)
			for n := range 141 {
				dst := make([]float32, n+1)
				dst[n] = mark
				f(dst[:n], x[:n], y[:n])
				if dst[n] != mark {
					t.Fatalf("%s at %v wrote behind %d elements", op.Name, level, n)
				}
				for i, v := range dst[:n] {
					if !asmtest.SameFloat(float64(v), float64(whole[i])) {
						t.Fatalf("%s at %v: element %d of %d is %g, of %d it was %g (seed %v)", op.Name, level, i, n, v, most, whole[i], seed)
					}
				}
			}
			a := append([]float32(nil), x...)
			if f(a, a, y); len(a) > 0 && a[0] != whole[0] || a[most-1] != whole[most-1] {
				t.Errorf("%s at %v: other values in place", op.Name, level)
			}
		}
	}
}

func TestEveryElementwiseOpOfFloat32IsAssembled(t *testing.T) {
	unary, binary := asmtest.ElementwiseOps(t)
	for _, level := range asmtest.Levels()[1:] {
		for _, op := range append(unary, binary...) {
			if !elementwise.Assembled[float32](level, op) {
				t.Errorf("%s has no function at %v: level_amd64.go names none", op.Name, level)
			}
		}
	}
}
