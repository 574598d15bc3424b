package kernels_test

import (
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// kept returns which elements of n ones stay.
func kept(t *testing.T, a kernels.DropoutAttrs, step float64, n int) []float64 {
	t.Helper()
	ones := kernels.Tensor{Spec: kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{n}}, Data: slices.Repeat([]float64{1}, n)}
	controls := kernels.Tensor{Spec: kernels.ControlsSpec, Data: make([]float64, kernels.Controls)}
	controls.Data[kernels.ControlStep] = step
	y, err := kernels.Eval(kernels.Dropout, a, []kernels.Tensor{ones, controls})
	if err != nil {
		t.Fatal(err)
	}
	return y[0].Data
}

// The number of n elements that stay is binomial: it is within six deviations, √(n·rate·(1 -
// rate)), but once in 10^9.
func TestDropoutKeepsItsShare(t *testing.T) {
	const n = 100_000
	for _, rate := range []float64{0, 0.1, 0.5, 0.9} {
		y, count := kept(t, kernels.DropoutAttrs{Rate: rate, Seed: 7}, 1, n), 0.0
		for _, v := range y {
			if v != 0 && v != 1/(1-rate) {
				t.Fatalf("rate %v: an element is %v", rate, v)
			}
			if v != 0 {
				count++
			}
		}
		if off := math.Abs(count - n*(1-rate)); off > 6*math.Sqrt(n*rate*(1-rate)) {
			t.Errorf("rate %v: %v of %d stay", rate, count, n)
		}
	}
}

func TestDropoutDependsOnSeedStepAndLayer(t *testing.T) {
	a := kernels.DropoutAttrs{Rate: 0.5, Seed: 1, Layer: 1}
	first := kept(t, a, 1, 64)
	if !slices.Equal(first, kept(t, a, 1, 64)) {
		t.Error("the same step drops other elements")
	}
	if !slices.Equal(first[:37], kept(t, a, 1, 37)) {
		t.Error("a smaller batch drops other elements")
	}
	for what, other := range map[string][]float64{
		"seed": kept(t, kernels.DropoutAttrs{Rate: 0.5, Seed: 1 << 40, Layer: 1}, 1, 64),
		"step": kept(t, a, 2, 64), "layer": kept(t, kernels.DropoutAttrs{Rate: 0.5, Seed: 1, Layer: 1 << 40}, 1, 64),
	} {
		if slices.Equal(first, other) {
			t.Errorf("another %s drops the same elements", what)
		}
	}
}
