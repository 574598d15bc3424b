package kernels_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// TestTheFirstUpdateOfAdam16 is done by hand: the step is the rate, and means are 0.1·g and
// 0.001·g² between their neighbours.
func TestTheFirstUpdateOfAdam16(t *testing.T) {
	p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	out := adam16(t, p, []float64{0, 0, 3}, []float64{1, -0.5, 0}, nil)
	for i, want := range []float64{-0.1, 0.1, 3} {
		if got := out[0].Data[i]; !near(got, want, 2e-8) { // the epsilon
			t.Errorf("parameter %d is %v, want %v", i, got, want)
		}
	}
	for k, want := range [][]float64{{0.1, -0.05, 0}, {0.001, 0.00025, 0}} {
		for i, w := range want {
			got := out[1+k].Data[i]
			if math.Abs(got-w) >= 0x1p-7*math.Abs(w) && w != 0 || w == 0 && got != 0 || kernels.Round(arena.BFloat16, got) != got {
				t.Errorf("mean %d of element %d is %v, want a neighbour of %v", k, i, got, w)
			}
		}
	}
}

// TestAMeanInBfloat16FollowsWhatItIsTheMeanOf: of 64 elements whose squares of gradients grow from
// 1 to 4 for good, means of squares get there, though each update moves them by less than half of
// what lies between neighbours. With 1,000 updates of memory the noise of a mean is
// 2⁻⁸·√(1000/2)/√6, 0.036 of it, and an eighth of that over all elements: 0.0045, of which 6 are
// allowed.
func TestAMeanInBfloat16FollowsWhatItIsTheMeanOf(t *testing.T) {
	const n, updates = 64, 5000
	r := random(t)
	p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n}}
	param, grad, v := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		param[i], grad[i], v[i] = r.NormFloat64(), 2, 1
	}
	states := [][]float64{make([]float64, n), v}
	for range updates {
		out := adam16(t, p, param, grad, states)
		param, states = out[0].Data, [][]float64{out[1].Data, out[2].Data}
	}
	mean := 0.0
	for _, v := range states[1] {
		mean += v / n
	}
	if want := 4 - 3*math.Pow(0.999, updates); !near(mean, want, 6*0.0045*want) {
		t.Errorf("means of squares are %v on average, want %v", mean, want)
	}
}

// adam16 runs one update at rate 0.1 from these states, zeros where they are nil.
func adam16(t *testing.T, p kernels.Spec, param, grad []float64, states [][]float64) []kernels.Tensor {
	t.Helper()
	in := []kernels.Tensor{{Spec: p, Data: param}, {Spec: p, Data: grad}, vector(arena.Int32, 0, 0, 0, 0), vector(arena.Float64, 0.1, 1, 0.1, 0.001, 0, 0, 0, 0, 0, 0)}
	for k, s := range kernels.Adam16States(p) {
		if states == nil {
			in = append(in, kernels.Tensor{Spec: s.Spec, Data: make([]float64, p.Shape.Elems())})
			continue
		}
		in = append(in, kernels.Tensor{Spec: s.Spec, Data: states[k]})
	}
	out, err := kernels.Eval(kernels.Adam16, kernels.Adam16Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
