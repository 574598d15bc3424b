package elementwise_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// ulps returns the distance of y from the exact value in units of the last place of a float32
// there. In assembly what should be below the smallest normal number may be zero.
func ulps(y float32, exact float64, flushed bool) float64 {
	if float64(y) == exact || math.IsNaN(float64(y)) && math.IsNaN(exact) || y == float32(exact) {
		return 0
	}
	const smallest = 0x1p-126
	if flushed && math.Abs(exact) < smallest && (y == 0 || math.Abs(float64(y)) == smallest) {
		return 0
	}
	_, e := math.Frexp(exact)
	return math.Abs(float64(y)-exact) / math.Ldexp(1, max(e-24, -149))
}

// exactly are the functions in float64, with the bounds that the comments of math.go and of the
// generator state, in ulp.
var exactly = []struct {
	op       *kernels.Op
	f        func(x float64) float64
	portable float64
	assembly float64
}{
	{kernels.Exp, math.Exp, 2, 1},
	{kernels.Expm1, math.Expm1, 0.5, 1.5},
	{kernels.Log, math.Log, 2, 1},
	{kernels.Log2, math.Log2, 0.5, 1.5},
	{kernels.Log1p, math.Log1p, 0.5, 1.5},
	{kernels.Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 3, 2.5},
	{kernels.Tanh, math.Tanh, 3, 2.5},
	{kernels.Softplus, func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }, 3, 2},
	{kernels.Erf, math.Erf, 0.5, 1.5},
	{kernels.Sin, math.Sin, 0.5, 0.51},
	{kernels.Cos, math.Cos, 0.5, 0.51},
	{kernels.Sqrt, math.Sqrt, 0.5, 0.5},
	{kernels.InverseSqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }, 0.5, 1.5},
	{kernels.Inverse, func(x float64) float64 { return 1 / x }, 0.5, 0.5},
}

// sweep calls f with stretches of numbers of every exponent, both signs, and of the ranges in which
// functions change.
func sweep(f func(x []float32)) {
	x := make([]float32, 0, 4096)
	add := func(v float32) {
		if x = append(x, v); len(x) == cap(x) {
			f(x)
			x = x[:0]
		}
	}
	for e := range uint32(255) {
		for m := uint32(0); m < 1<<23; m += 8_191 {
			add(math.Float32frombits(e<<23 | m))
			add(math.Float32frombits(1<<31 | e<<23 | m))
		}
	}
	for _, r := range [][2]float64{{-104, 89}, {0.5, 2}, {-1, 1}, {-12, 12}, {-1e-3, 1e-3}, {-1, 30}} {
		const n = 1 << 18
		for i := range n {
			add(float32(r[0] + (r[1]-r[0])*float64(i)/n))
		}
	}
	f(x)
}

func TestFloat32FunctionsAreAccurate(t *testing.T) {
	for _, level := range asmtest.Levels() {
		for _, c := range exactly {
			bound, flushed := c.portable, level != asm.Portable && c.op != kernels.Sin && c.op != kernels.Cos
			if level != asm.Portable {
				bound = c.assembly
			}
			tile := elementwise.Unary[float32](level, c.op, nil)
			worst, at := 0.0, float32(0)
			y := make([]float32, 4096)
			sweep(func(x []float32) {
				tile(y[:len(x)], x)
				for i, v := range x {
					in := float64(v)
					if flushed && math.Abs(in) < 0x1p-126 {
						in = math.Copysign(0, in)
					}
					if u := ulps(y[i], c.f(in), flushed); !(u <= worst) {
						worst, at = u, v
					}
				}
			})
			t.Logf("%s at %v: at most %.2f ulp, at %g", c.op.Name, level, worst, at)
			if !(worst <= bound) {
				t.Errorf("%s at %v: %.2f ulp at %g, allowed %g", c.op.Name, level, worst, at, bound)
			}
		}
	}
}

func TestPowersAreAccurate(t *testing.T) {
	r, seed := asmtest.Rand(t)
	x, y := asmtest.Sample32(r, 2000), asmtest.Sample32(r, 2000)
	for i := range x {
		if i%2 == 0 { // most others are far from 1, and their powers 0 or infinite
			x[i], y[i] = float32(math.Exp(r.NormFloat64()*3)), float32(r.NormFloat64()*10)
		}
		if i%8 == 1 {
			x[i], y[i] = -float32(math.Exp(r.NormFloat64()*3)), float32(r.IntN(40)-20)
		}
	}
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, -2, 3, 0.5, -0.5, -3, 1 << 24, 1<<24 - 1, float32(math.Inf(1)), float32(math.Inf(-1)),
		float32(math.NaN()), 0x1p-140, -0x1p-149}
	for _, a := range special {
		for _, b := range special {
			x, y = append(x, a), append(y, b)
		}
	}
	dst := make([]float32, len(x))
	for _, level := range asmtest.Levels() {
		elementwise.Binary[float32](level, kernels.Pow, nil)(dst, x, y[:len(x)])
		worst := 0.0
		for i, v := range dst {
			u := ulps(v, math.Pow(float64(x[i]), float64(y[i])), false)
			// Computed in float64 and rounded, so that about half an ulp is all.
			if worst = max(worst, u); !(u <= 0.51) {
				t.Fatalf("pow(%g, %g) at %v = %g, want %g (seed %v)", x[i], y[i], level, v, math.Pow(float64(x[i]), float64(y[i])), seed)
			}
		}
		t.Logf("pow at %v: at most %.2f ulp", level, worst)
	}
}

func TestFloat32FunctionsAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		op      *kernels.Op
		x, want float32
	}{
		{kernels.Exp, inf, inf}, {kernels.Exp, -inf, 0}, {kernels.Exp, nan, nan}, {kernels.Exp, 0, 1},
		{kernels.Exp, 88.8, inf}, {kernels.Exp, -1e30, 0}, {kernels.Exp, 1e30, inf},
		{kernels.Expm1, inf, inf}, {kernels.Expm1, -inf, -1}, {kernels.Expm1, nan, nan}, {kernels.Expm1, 0, 0}, {kernels.Expm1, 89, inf},
		{kernels.Log, 0, -inf}, {kernels.Log, -1, nan}, {kernels.Log, inf, inf}, {kernels.Log, nan, nan}, {kernels.Log, 1, 0},
		{kernels.Log, -inf, nan},
		{kernels.Log2, 0, -inf}, {kernels.Log2, -1, nan}, {kernels.Log2, inf, inf}, {kernels.Log2, nan, nan}, {kernels.Log2, 8, 3},
		{kernels.Log1p, -1, -inf}, {kernels.Log1p, -2, nan}, {kernels.Log1p, inf, inf}, {kernels.Log1p, nan, nan}, {kernels.Log1p, 0, 0},
		{kernels.Tanh, inf, 1}, {kernels.Tanh, -inf, -1}, {kernels.Tanh, nan, nan}, {kernels.Tanh, 0, 0},
		{kernels.Erf, inf, 1}, {kernels.Erf, -inf, -1}, {kernels.Erf, nan, nan}, {kernels.Erf, 0, 0}, {kernels.Erf, -4, -1},
		{kernels.Sigmoid, inf, 1}, {kernels.Sigmoid, -inf, 0}, {kernels.Sigmoid, nan, nan}, {kernels.Sigmoid, 0, 0.5},
		{kernels.Softplus, inf, inf}, {kernels.Softplus, -inf, 0}, {kernels.Softplus, nan, nan},
		{kernels.ReLU, nan, nan}, {kernels.ReLU, -inf, 0}, {kernels.ReLU, inf, inf}, {kernels.Sign, nan, nan}, {kernels.Sign, -inf, -1},
		{kernels.Sqrt, -1, nan}, {kernels.Sqrt, inf, inf}, {kernels.InverseSqrt, 0, inf}, {kernels.InverseSqrt, inf, 0},
		{kernels.Inverse, 0, inf}, {kernels.Inverse, inf, 0}, {kernels.Sin, inf, nan}, {kernels.Cos, 0, 1}, {kernels.Sin, nan, nan},
	} {
		for _, level := range asmtest.Levels() {
			got := []float32{0}
			if elementwise.Unary[float32](level, c.op, nil)(got, []float32{c.x}); got[0] != c.want && !(got[0] != got[0] && c.want != c.want) {
				t.Errorf("%s(%g) at %v = %g, want %g", c.op.Name, c.x, level, got[0], c.want)
			}
		}
	}
}
