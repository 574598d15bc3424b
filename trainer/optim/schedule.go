package optim

import (
	"fmt"
	"math"
)

// Schedule makes the rate of update t, counted from 1, of the optimizer's rate. It is a function of both alone,
// so that a resumed run goes on where it stopped. Those of this package are safe for concurrent use and allocate nothing.
type Schedule interface {
	Rate(base float64, t int64) float64
}

// Constant leaves the rate as it is.
type Constant struct{}

// Rate implements Schedule.
func (Constant) Rate(base float64, _ int64) float64 { return base }

// Step multiplies the rate by Factor after each Every updates: updates 1..Every have the base rate.
type Step struct {
	Every  int64   // updates
	Factor float64 // 0.1 is usual
}

// Rate implements Schedule.
func (s Step) Rate(base float64, t int64) float64 {
	if s.Every < 1 {
		return base
	}
	return base * math.Pow(s.Factor, float64((t-1)/s.Every))
}

// Validate returns an error that names every bad field and wraps ErrOption.
func (s Step) Validate() error {
	return check("step", atLeast("Every", s.Every), least("Factor", s.Factor, 0))
}

// Cosine falls from the base rate at update 1 to Floor times the base rate at update Steps+1, and stays there.
// Source: Loshchilov and Hutter, 2017, equation 5, without restarts.
type Cosine struct {
	Steps int64   // updates
	Floor float64 // share of the base rate, 0 to 1
}

// Rate implements Schedule.
func (c Cosine) Rate(base float64, t int64) float64 {
	if t > c.Steps {
		return base * c.Floor
	}
	done := float64(t-1) / float64(c.Steps)
	return base * (c.Floor + (1-c.Floor)*(1+math.Cos(math.Pi*done))/2)
}

// Validate returns an error that names every bad field and wraps ErrOption.
func (c Cosine) Validate() error {
	var floor error
	if !(c.Floor >= 0 && c.Floor <= 1) {
		floor = fmt.Errorf("%s is %v, must be 0 to 1", "Floor", c.Floor)
	}
	return check("cosine", atLeast("Steps", c.Steps), floor)
}

// Warmup raises the rate in equal steps to the base rate at update Steps; the update after it is Then's first.
// Source: Goyal et al., 2017, section 2.2 (gradual warm-up), by update rather than by epoch.
type Warmup struct {
	Steps int64    // updates
	Then  Schedule // nil: Constant
}

// Rate implements Schedule.
func (w Warmup) Rate(base float64, t int64) float64 {
	if t <= w.Steps {
		return base * float64(t) / float64(w.Steps)
	}
	if w.Then == nil {
		return base
	}
	return w.Then.Rate(base, t-w.Steps)
}

// Validate returns an error that names every bad field, those of Then too, and wraps ErrOption.
func (w Warmup) Validate() error {
	return check("warmup", atLeast("Steps", w.Steps), ValidateSchedule(w.Then))
}
