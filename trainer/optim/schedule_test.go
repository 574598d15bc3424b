package optim_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestSchedulesGiveExactRates(t *testing.T) {
	t.Parallel()
	const base = 0.8
	step := optim.Step{Every: 3, Factor: 0.5}
	cosine := optim.Cosine{Steps: 4, Floor: 0.25}
	for _, c := range []struct {
		name string
		s    optim.Schedule
		want []float64 // of updates 1, 2, …
	}{
		{"constant", optim.Constant{}, []float64{0.8, 0.8, 0.8}},
		{"step", step, []float64{0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2}},
		{"cosine", cosine, []float64{0.8, 0.2 + 0.3*(1+math.Sqrt2/2), 0.5, 0.2 + 0.3*(1-math.Sqrt2/2), 0.2, 0.2, 0.2}},
		{"cosine to 0", optim.Cosine{Steps: 2}, []float64{0.8, 0.4, 0, 0}},
		{"warmup", optim.Warmup{Steps: 4}, []float64{0.2, 0.4, 0.6, 0.8, 0.8, 0.8}},
		{"warmup then step", optim.Warmup{Steps: 2, Then: step}, []float64{0.4, 0.8, 0.8, 0.8, 0.8, 0.4}},
		{"warmup then cosine", optim.Warmup{Steps: 2, Then: cosine}, []float64{0.4, 0.8, 0.8, 0.2 + 0.3*(1+math.Sqrt2/2), 0.5}},
	} {
		for i, want := range c.want {
			// Rounding of a cosine and a few products.
			if got := c.s.Rate(base, int64(i+1)); math.Abs(got-want) > 1e-15 {
				t.Errorf("%s: update %d has rate %v, want %v", c.name, i+1, got, want)
			}
		}
		if err := optim.ValidateSchedule(c.s); err != nil {
			t.Errorf("%s: refused: %v", c.name, err)
		}
	}
	if err := optim.ValidateSchedule(nil); err != nil {
		t.Errorf("no schedule is refused: %v", err)
	}
}

func TestSchedulesNeverLeaveTheirBounds(t *testing.T) {
	t.Parallel()
	for _, s := range []optim.Schedule{optim.Constant{}, optim.Step{Every: 7, Factor: 0.9}, optim.Cosine{Steps: 100, Floor: 0.1}, optim.Warmup{Steps: 10, Then: optim.Cosine{Steps: 50}}} {
		for t64 := int64(1); t64 < 300; t64++ {
			if r := s.Rate(1, t64); !(r >= 0 && r <= 1) {
				t.Fatalf("%T: update %d has rate %v of base 1", s, t64, r)
			}
		}
		if r := s.Rate(1, math.MaxInt64); math.IsNaN(r) || r < 0 || r > 1 {
			t.Errorf("%T: the last update there is has rate %v", s, r)
		}
	}
}
