package cpu_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// ulps returns the distance of y from the exact value in units of the last place of a float32 there.
func ulps(y float32, exact float64) float64 {
	if float64(y) == exact || math.IsNaN(float64(y)) && math.IsNaN(exact) || y == float32(exact) {
		return 0
	}
	_, e := math.Frexp(exact)
	return math.Abs(float64(y)-exact) / math.Ldexp(1, max(e-24, -149))
}

func TestFloat32FunctionsAreAccurate(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	softplus := func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
	for _, c := range []struct {
		name   string
		f      func(float32) float32
		exact  func(float64) float64
		lo, hi float64
		bound  float64 // ulps, as the comment of math32.go states
	}{
		{"exp", cpu.Exp32, math.Exp, -104, 89, 2},
		{"log", cpu.Log32, math.Log, 0, 100, 2},
		{"log of small numbers", cpu.Log32, math.Log, 0, 1e-37, 2},
		{"log of large numbers", cpu.Log32, math.Log, 0, math.MaxFloat32, 2},
		{"log near 1", cpu.Log32, math.Log, 0.9, 1.1, 2},
		{"tanh", cpu.Tanh32, math.Tanh, -12, 12, 3},
		{"tanh near 0", cpu.Tanh32, math.Tanh, -1e-3, 1e-3, 3},
		{"tanh of small numbers", cpu.Tanh32, math.Tanh, -1, 1, 3},
		{"sigmoid", cpu.Sigmoid32, sigmoid, -87, 30, 3},
		{"softplus", cpu.Softplus32, softplus, -87, 30, 3},
	} {
		worst, at := 0.0, float32(0)
		const n = 400_000
		for i := range n {
			x := float32(c.lo + (c.hi-c.lo)*float64(i)/n)
			if u := ulps(c.f(x), c.exact(float64(x))); !(u <= worst) {
				worst, at = u, x
			}
		}
		t.Logf("%s: at most %.2f ulp", c.name, worst)
		if !(worst <= c.bound) {
			t.Errorf("%s: %.2f ulp at %g, allowed %g", c.name, worst, at, c.bound)
		}
	}
}

func TestFloat32FunctionsAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name    string
		f       func(float32) float32
		x, want float32
	}{
		{"exp", cpu.Exp32, inf, inf}, {"exp", cpu.Exp32, -inf, 0}, {"exp", cpu.Exp32, nan, nan}, {"exp", cpu.Exp32, 0, 1},
		{"exp", cpu.Exp32, 88.8, inf}, {"exp", cpu.Exp32, -1e30, 0}, {"exp", cpu.Exp32, 1e30, inf},
		{"log", cpu.Log32, 0, -inf}, {"log", cpu.Log32, -1, nan}, {"log", cpu.Log32, inf, inf}, {"log", cpu.Log32, nan, nan},
		{"log", cpu.Log32, 1, 0},
		{"tanh", cpu.Tanh32, inf, 1}, {"tanh", cpu.Tanh32, -inf, -1}, {"tanh", cpu.Tanh32, nan, nan}, {"tanh", cpu.Tanh32, 0, 0},
		{"sigmoid", cpu.Sigmoid32, inf, 1}, {"sigmoid", cpu.Sigmoid32, -inf, 0}, {"sigmoid", cpu.Sigmoid32, nan, nan},
		{"sigmoid", cpu.Sigmoid32, 0, 0.5},
		{"softplus", cpu.Softplus32, inf, inf}, {"softplus", cpu.Softplus32, -inf, 0}, {"softplus", cpu.Softplus32, nan, nan},
	} {
		if got := c.f(c.x); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("%s(%g) = %g, want %g", c.name, c.x, got, c.want)
		}
	}
}
