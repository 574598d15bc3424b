package kernels_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// [1 2; 3 4] has squares of mean 2.5 and 12.5 by row, 5 and 10 by column, 7.5 in all. So they stand
// for [2.5·5 2.5·10; 12.5·5 12.5·10] / 7.5, the step's squares are 0.6 1.2 1.08 0.96, and their
// mean is 0.96.
func TestAdafactorGivesHandComputedValues(t *testing.T) {
	squares := []float64{0.6, 1.2, 1.08, 0.96}
	for _, c := range []struct {
		name  string
		attrs kernels.AdafactorAttrs
		by    float64 // what the step is multiplied with
		keep  float64 // what is left of the parameter, 2 everywhere
	}{
		{"plain", kernels.AdafactorAttrs{Limit: 1}, 0.1, 1},
		{"limited", kernels.AdafactorAttrs{Limit: 0.5}, 0.1 * 0.5 / math.Sqrt(0.96), 1},
		{"relative", kernels.AdafactorAttrs{Limit: 1, Relative: true}, 0.1 * 2, 1},
		{"relative to the least size", kernels.AdafactorAttrs{Limit: 1, Relative: true, Least: 3}, 0.1 * 3, 1},
		{"decayed", kernels.AdafactorAttrs{Limit: 1, UpdateAttrs: kernels.UpdateAttrs{Decay: 0.5}}, 0.1, 1 - 0.1*0.5},
	} {
		c.attrs.Epsilon, c.attrs.Least = 1e-30, max(c.attrs.Least, 1e-3)
		out := adafactor(t, c.attrs, kernels.Shape{2, 2}, []float64{2, 2, 2, 2}, []float64{1, 2, 3, 4}, 1, []float64{0, 0}, []float64{0, 0})
		for i, s := range squares {
			if want := 2*c.keep - c.by*math.Sqrt(s); !near(out[0].Data[i], want, 1e-15) {
				t.Errorf("%s: parameter %d is %v, want %v", c.name, i, out[0].Data[i], want)
			}
		}
		if r, k := out[1].Data, out[2].Data; !near(r[0], 2.5, 1e-15) || !near(r[1], 12.5, 1e-15) || !near(k[0], 5, 1e-15) || !near(k[1], 10, 1e-15) {
			t.Errorf("%s: means %v of rows and %v of columns, want [2.5 12.5] and [5 10]", c.name, r, k)
		}
	}
	out := adafactor(t, kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Least: 1}, kernels.Shape{2, 2}, make([]float64, 4), []float64{1, 2, 3, 4}, 0.25, []float64{2, 4}, []float64{8, 16})
	if r, k := out[1].Data, out[2].Data; !near(r[0], 2.125, 1e-15) || !near(r[1], 6.125, 1e-15) || !near(k[0], 7.25, 1e-15) || !near(k[1], 14.5, 1e-15) {
		t.Errorf("means %v of rows and %v of columns, want [2.125 6.125] and [7.25 14.5]", r, k)
	}
}

// A vector's squares are not factored: from means 0 every step is the sign of its gradient.
func TestAdafactorKeepsTheSquaresOfVectors(t *testing.T) {
	a := kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Least: 1}
	out := adafactor(t, a, kernels.Shape{4}, make([]float64, 4), []float64{1, -20, 0.003, 0}, 1, make([]float64, 4), []float64{0})
	for i, want := range []float64{-0.1, 0.1, -0.1, 0} {
		if got := out[0].Data[i]; !near(got, want, 1e-15) {
			t.Errorf("parameter %d is %v, want %v", i, got, want)
		}
	}
}

// Each matrix of a larger parameter has means of its own; the step is limited over all of it.
func TestAdafactorOfSeveralMatricesIsThatOfEach(t *testing.T) {
	r := random(t)
	a := kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1e9, Least: 1}
	grad := make([]float64, 2*3*5)
	for i := range grad {
		grad[i] = r.NormFloat64()
	}
	all := adafactor(t, a, kernels.Shape{2, 1, 3, 5}, make([]float64, 30), grad, 1, make([]float64, 6), make([]float64, 10))
	for m := range 2 {
		one := adafactor(t, a, kernels.Shape{3, 5}, make([]float64, 15), grad[15*m:][:15], 1, make([]float64, 3), make([]float64, 5))
		for k, n := range []int{15, 3, 5} {
			for i, want := range one[k].Data {
				if got := all[k].Data[n*m+i]; !near(got, want, 1e-14) {
					t.Errorf("matrix %d output %d element %d: got %v, want %v", m, k, i, got, want)
				}
			}
		}
	}
}

// adafactor runs one update with rate 0.1 and that weight of the new squares.
func adafactor(t *testing.T, a kernels.AdafactorAttrs, shape kernels.Shape, param, grad []float64, fresh float64, rows, columns []float64) []kernels.Tensor {
	t.Helper()
	p := kernels.Spec{Type: arena.Float64, Shape: shape}
	states := kernels.AdafactorStates(p)
	r, c := states[0].Spec, states[1].Spec
	out, err := kernels.Eval(kernels.Adafactor, a, []kernels.Tensor{{Spec: p, Data: param}, {Spec: p, Data: grad}, vector(arena.Int32, 0, 0, 0, 0),
		vector(arena.Float64, 0.1, 1, fresh, 0, 0, 0, 0, 0, 0, 0), {Spec: r, Data: rows}, {Spec: c, Data: columns}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The square of each gradient is more than the type of its mean can hold. The step is as large as
// Limit allows.
func TestAdafactorTakesAFiniteStepAfterAnyFiniteGradient(t *testing.T) {
	for _, c := range []struct {
		float arena.DType
		grad  float64
	}{{arena.Float32, 1e20}, {arena.Float32, math.MaxFloat32}, {arena.Float64, 1e155}, {arena.Float64, 1e290}} {
		for _, shape := range []kernels.Shape{{2, 2}, {4}} {
			p := kernels.Spec{Type: c.float, Shape: shape}
			states := kernels.AdafactorStates(p)
			rows, columns := states[0].Spec, states[1].Spec
			in := []kernels.Tensor{{Spec: p, Data: make([]float64, 4)}, {Spec: p, Data: []float64{c.grad, -c.grad, c.grad, c.grad}}, vector(arena.Int32, 0, 0, 0, 0),
				vector(arena.Float64, 0.1, 1, 1, 0, 0, 0, 0, 0, 0, 0), {Spec: rows, Data: make([]float64, rows.Shape.Elems())}, {Spec: columns, Data: make([]float64, columns.Shape.Elems())}}
			out, err := kernels.Eval(kernels.Adafactor, kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Least: 1}, in)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []float64{-0.1, 0.1, -0.1, -0.1} {
				if got := out[0].Data[i]; !near(got, want, 1e-12) {
					t.Errorf("%v with gradients of %v: parameter %d is %v, want %v", p, c.grad, i, got, want)
				}
			}
		}
	}
}
