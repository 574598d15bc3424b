package layers_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestInitialValuesAreAFunctionOfSeedAndName(t *testing.T) {
	draw := func(seed uint64, name string) []float64 {
		d := make([]float64, 3000) // more than one chunk
		if err := layers.Fill(d, layers.HeNormal{}, seed, name, 60, 50); err != nil {
			t.Fatal(err)
		}
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
	if err := layers.Fill(narrow, layers.HeNormal{}, 1, "hidden/w", 60, 50); err != nil {
		t.Fatal(err)
	}
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
		if err := layers.Fill(d, c.init, seed.Value(), "w", in, out); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
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
			t.Errorf("%s: mean %v, deviation %v, want %v and %v (EVENKEEL_SEED=%d)", c.name, mean, math.Sqrt(square), c.mean, c.std, seed.Value())
		}
	}
}

func TestFillingNeedsAFixedAmountOfMemory(t *testing.T) {
	big, small := make([]float32, 1<<18), make([]float32, 1<<10)
	count := func(d []float32) float64 {
		return testing.AllocsPerRun(5, func() {
			if err := layers.Fill(d, layers.HeUniform{}, 1, "w", len(d), 1); err != nil {
				t.Fatal(err)
			}
		})
	}
	if a, b := count(big), count(small); a != b || a > 8 {
		t.Errorf("%v objects for 2^18 elements and %v for 2^10, want the same few", a, b)
	}
}

// fill is an Init of a program's own.
type fill func(at int, dst []float64)

func (f fill) Fill(_ *rand.Rand, _ []int, at int, dst []float64) { f(at, dst) }

func TestInitialValuesThatCannotBeAreErrors(t *testing.T) {
	var null *layers.Normal
	for _, c := range []struct {
		name string
		init layers.Init
		n    int
		is   error
		want string
	}{
		{"none", nil, 6, layers.ErrInit, "no init"},
		{"nil pointer", null, 6, layers.ErrInit, "nil *layers.Normal"},
		{"panic", fill(nil), 6, layers.ErrInit, "layers_test.fill: panic: "},
		{"NaN", fill(func(at int, dst []float64) { dst[4] = math.NaN() }), 6, layers.ErrInit, "element 4 NaN"},
		{"too large for float32", layers.Constant{Value: 1e39}, 6, layers.ErrInit, "element 0 +Inf"},
		{"another length", layers.Zeros{}, 5, layers.ErrShape, "5 elements for shape (2, 3)"},
	} {
		err := layers.Fill(make([]float32, c.n), c.init, 1, "w", 2, 3)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q that is %v", c.name, err, c.want, c.is)
		}
	}
	net := layers.New(gorgonia.NewGraph())
	net.Param("w", fill(nil), 2, 3)
	if err := net.Values(1); !errors.Is(err, layers.ErrInit) || !strings.Contains(err.Error(), `parameter "w"`) {
		t.Errorf("values: got %v, want ErrInit and the parameter", err)
	}
}
