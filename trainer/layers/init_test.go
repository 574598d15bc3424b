package layers_test

import (
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestInitialValuesAreAFunctionOfSeedAndName(t *testing.T) {
	draw := func(seed uint64, name string) []float64 {
		d := make([]float64, 3000) // more than one chunk
		layers.Fill(d, layers.HeNormal{}, seed, name, 60, 50)
		return d
	}
	a := draw(1, "hidden/w")
	if !slices.Equal(a, draw(1, "hidden/w")) {
		t.Error("the same seed and name gave other values")
	}
	if slices.Equal(a, draw(2, "hidden/w")) || slices.Equal(a, draw(1, "out/w")) {
		t.Error("another seed or name gave the same values")
	}
	narrow := make([]float32, len(a))
	layers.Fill(narrow, layers.HeNormal{}, 1, "hidden/w", 60, 50)
	for i := range a {
		if narrow[i] != float32(a[i]) {
			t.Fatalf("float32 element %d is %v, want %v rounded", i, narrow[i], a[i])
		}
	}
}

func TestInitialValuesHaveTheStatedSpread(t *testing.T) {
	const in, out, n = 300, 200, 60000
	for _, c := range []struct {
		name  string
		init  layers.Init
		mean  float64
		std   float64
		limit float64 // 0: none
	}{
		{"zeros", layers.Zeros{}, 0, 0, 0},
		{"ones", layers.Ones{}, 1, 0, 0},
		{"constant", layers.Constant{Value: -2}, -2, 0, 0},
		{"uniform", layers.Uniform{Limit: 0.3}, 0, 0.3 / math.Sqrt(3), 0.3},
		{"normal", layers.Normal{Std: 0.02}, 0, 0.02, 0},
		{"glorot uniform", layers.GlorotUniform{}, 0, math.Sqrt(2.0 / (in + out)), math.Sqrt(6.0 / (in + out))},
		{"glorot normal", layers.GlorotNormal{}, 0, math.Sqrt(2.0 / (in + out)), 0},
		{"he uniform", layers.HeUniform{}, 0, math.Sqrt(2.0 / in), math.Sqrt(6.0 / in)},
		{"he normal", layers.HeNormal{}, 0, math.Sqrt(2.0 / in), 0},
	} {
		d := make([]float64, n)
		layers.Fill(d, c.init, *seed, "w", in, out)
		mean, square := 0.0, 0.0
		for _, v := range d {
			mean += v / n
			if c.limit > 0 && math.Abs(v) > c.limit {
				t.Fatalf("%s: %v is beyond %v", c.name, v, c.limit)
			}
		}
		for _, v := range d {
			square += (v - mean) * (v - mean) / n
		}
		// 5 standard errors of a mean, and 2 % of a deviation, over 60,000 draws.
		if math.Abs(mean-c.mean) > 5*c.std/math.Sqrt(n)+1e-12 || math.Abs(math.Sqrt(square)-c.std) > 0.02*c.std+1e-12 {
			t.Errorf("%s: mean %v, deviation %v, want %v and %v (seed %d)", c.name, mean, math.Sqrt(square), c.mean, c.std, *seed)
		}
	}
}

func TestFillingNeedsAFixedAmountOfMemory(t *testing.T) {
	big, small := make([]float32, 1<<18), make([]float32, 1<<10)
	count := func(d []float32) float64 {
		return testing.AllocsPerRun(5, func() { layers.Fill(d, layers.HeUniform{}, 1, "w", len(d), 1) })
	}
	if a, b := count(big), count(small); a != b || a > 8 {
		t.Errorf("%v objects for 2^18 elements and %v for 2^10, want the same few", a, b)
	}
}
