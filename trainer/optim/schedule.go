package optim

import (
	"fmt"
	"math"
)

// Schedule computes the learning rate of each update. Schedules of this package are plain values,
// safe for concurrent use; they allocate nothing.
type Schedule interface {
	// Rate returns the rate of update t, counted from 1. base is the optimizer's own rate. The
	// result depends on base and t alone, so that a resumed run continues with the same rates. It is 0
	// to 2⁶³, and at update 1 not between 0 and 2⁻⁶³: later, a rate below 2⁻⁶³ counts as 0. Any other
	// rate ends the pass with an error before that update.
	Rate(base float64, t int64) float64
}

// Constant keeps the base rate.
type Constant struct{}

// Rate implements Schedule.
func (Constant) Rate(base float64, _ int64) float64 { return base }

// Step multiplies the rate by Factor after every Every updates: updates 1 to Every have the base
// rate, the next Every updates have Factor times the base rate.
type Step struct {
	Every  int64   // updates, 1 or more
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
	return check("step", checkCount("Every", s.Every), checkMin("Factor", s.Factor, 0))
}

// Cosine lowers the rate along half a cosine: from the base rate at update 1 to Floor times the
// base rate at update Steps+1, where it stays.
//
// Source: Loshchilov and Hutter, 2017, equation 5, without restarts.
type Cosine struct {
	Steps int64   // updates, 1 or more
	Floor float64 // fraction of the base rate, 0 to 1
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
	} else {
		floor = checkLeast("Floor", c.Floor)
	}
	return check("cosine", checkCount("Steps", c.Steps), floor)
}

// Warmup raises the rate linearly, from base/Steps at update 1 to the base rate at update Steps.
// The next update is update 1 of Then.
//
// Source: Goyal et al., 2017, section 2.2 (gradual warm-up), by updates instead of epochs.
type Warmup struct {
	Steps int64    // updates, 1 or more
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

// Validate returns an error that names every bad field, also those of Then, and wraps ErrOption.
func (w Warmup) Validate() error {
	return check("warmup", checkCount("Steps", w.Steps), ValidateSchedule(w.Then))
}
