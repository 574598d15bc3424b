package optim

import (
	"fmt"
	"math"
)

// OneCycle raises the rate from Start times the base rate at update 1 to the base rate, and lowers it
// to End times the base rate at update Steps, where it stays. Both are halves of a cosine.
//
// Source: Smith and Topin, 2018, with the two phases, the cosines and the defaults of PyTorch's
// OneCycleLR: the first phase ends at update Rise·Steps.
type OneCycle struct {
	Steps int64   // updates, 1 or more
	Rise  float64 // fraction of Steps in which the rate rises, above 0 and below 1; default 0.3
	Start float64 // fraction of the base rate at the beginning, up to 1; default 1/25
	End   float64 // fraction of the base rate at the end, up to 1; default Start/10,000
}

// Rate implements Schedule.
func (c OneCycle) Rate(base float64, t int64) float64 {
	start := or(c.Start, 1.0/25)
	end := or(c.End, start/1e4)
	// Of updates counted from 0, the first phase ends at peak and the second one at last.
	at, peak, last := float64(t-1), or(c.Rise, 0.3)*float64(c.Steps)-1, float64(c.Steps-1)
	switch {
	case at >= last:
		return base * end
	case at < peak:
		return base * halfCosine(start, 1, at/peak)
	}
	return base * halfCosine(1, end, (at-max(peak, 0))/(last-max(peak, 0)))
}

// halfCosine goes from a to b as done goes from 0 to 1.
func halfCosine(a, b, done float64) float64 { return b + (a-b)*(1+math.Cos(math.Pi*done))/2 }

// Validate returns an error that names every bad field and wraps ErrOption.
func (c OneCycle) Validate() error {
	errs := []error{checkCount("Steps", c.Steps), checkLeast("Start", c.Start), checkLeast("End", c.End)}
	if r := or(c.Rise, 0.3); !(r > 0 && r < 1) {
		errs = append(errs, fmt.Errorf("%s is %v, must be above 0 and below 1", "Rise", c.Rise))
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"Start", c.Start}, {"End", c.End}} {
		if !(f.value >= 0 && f.value <= 1) {
			errs = append(errs, fmt.Errorf("%s is %v, must be 0 to 1", f.name, f.value))
		}
	}
	return check("one cycle", errs...)
}
