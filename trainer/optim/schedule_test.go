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

// A schedule that decays reaches 0, or its floor, and no update of a long run is an error.
func TestNoUpdateOfALongRunIsAnError(t *testing.T) {
	t.Parallel()
	const updates = 1_000_000_000
	exponential := func(perUpdate float64) optim.Schedule { return optim.Step{Every: 1, Factor: perUpdate} }
	for _, c := range []struct {
		name string
		s    optim.Schedule
		end  float64 // fraction of the base rate at the end
	}{
		{"step", optim.Step{Every: 1000, Factor: 0.1}, 0},
		{"step by nearly 1", optim.Step{Every: 100_000, Factor: 0.99}, 0},
		{"step to 0", optim.Step{Every: 10, Factor: 0}, 0},
		{"exponential", exponential(0.9999), 0},
		{"slow exponential", exponential(1 - 1e-8), math.Exp(-10)},
		{"cosine", optim.Cosine{Steps: updates}, 0},
		{"cosine of a part", optim.Cosine{Steps: updates / 3}, 0},
		{"cosine with a floor", optim.Cosine{Steps: updates - 1, Floor: 0x1p-40}, 0x1p-40},
		{"warmup, then cosine", optim.Warmup{Steps: 1000, Then: optim.Cosine{Steps: updates - 1000}}, 0},
	} {
		for _, o := range optim.All() {
			if err := optim.Check(o.Optimizer, c.s, optim.Clip{}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			dst := make([]float64, optim.Controls)
			o.Optimizer.Controls(updates+1, dst) // the rate of Adafactor falls with t
			base := dst[0]
			at := func(update int64) float64 {
				if err := optim.WriteControls(o.Optimizer, c.s, update, dst); err != nil {
					t.Fatalf("%s, %s: %v", c.name, o.Name, err)
				}
				for i, v := range dst {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("%s, %s: update %d has control %d = %v", c.name, o.Name, update, i, v)
					}
				}
				return dst[0]
			}
			for update := int64(1); update <= updates; update += max(1, update/50) {
				at(update)
			}
			last := math.Inf(1)
			for update := int64(updates - 20_000); update <= updates+1; update++ { // where a cosine passes the smallest rate
				r := at(update)
				if r > last || r < 0 || r > 0 && r < 0x1p-63 {
					t.Fatalf("%s, %s: update %d has rate %v after %v", c.name, o.Name, update, r, last)
				}
				last = r
			}
			if want := base * c.end; math.Abs(last-want) > 1e-6*want {
				t.Errorf("%s, %s: the last rate is %v, want %v", c.name, o.Name, last, want)
			}
		}
	}
}
