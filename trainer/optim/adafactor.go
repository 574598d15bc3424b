package optim

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// Adafactor divides the gradient by the root of a running mean of its square, of which it keeps the means over the rows and over the columns
// of each matrix alone: n·m elements have n + m of state, where Adam has 2·n·m. Vectors keep all of theirs. Of a parameter of more dimensions, such
// as filters, the last two are matrices.
//
//	R, C = βₜ·(R, C) + (1-βₜ)·means over rows and columns of (g² + Epsilon);  βₜ = 1 - t^-Power
//	u = g / √(R·C / mean R);  u /= max(1, rms(u) / Limit);  p -= rate·max(rms(p), Least)·u + rate·Decay·p
//
// The mean has no bias at the start, and needs no warm-up. The update needs a whole gradient: trainer.GuardEach does not slice it.
// Source: Shazeer and Stern, 2018, algorithms 4 to 6, without momentum.
type Adafactor struct {
	Rate     float64 // 0: 0.01; but min(Rate, 1/√t) unless Absolute
	Absolute bool    // the rate is that of a step as it is, whatever the size of the parameter: a usual one is 0.001
	Power    float64 // 0: 0.8
	Epsilon  float64 // 0: 1e-30
	Least    float64 // 0: 0.001; parameters that are smaller, such as biases at 0, have steps as if they were of this size
	Limit    float64 // 0: 1
	Decay    float64 // decoupled
}

// Op implements Optimizer.
func (Adafactor) Op() *kernels.Op { return kernels.Adafactor }

// Attrs implements Optimizer.
func (o Adafactor) Attrs(clip Clip, scaled bool) any {
	return kernels.AdafactorAttrs{UpdateAttrs: update(clip, scaled, o.Decay),
		Epsilon: or(o.Epsilon, 1e-30), Limit: or(o.Limit, 1), Relative: !o.Absolute, Least: or(o.Least, 1e-3)}
}

// States implements Optimizer.
func (Adafactor) States(param kernels.Spec) []kernels.State {
	return kernels.AdafactorStates(param)
}

// Controls implements Optimizer. dst[2] = 1 - βₜ = t^-Power.
func (o Adafactor) Controls(t int64, dst []float64) {
	dst[0], dst[1] = or(o.Rate, 0.01), float64(t)
	if !o.Absolute {
		dst[0] = min(dst[0], 1/math.Sqrt(float64(t)))
	}
	dst[2] = math.Pow(float64(t), -or(o.Power, 0.8))
}

// Validate implements Optimizer.
func (o Adafactor) Validate() error {
	return check("adafactor", least("Rate", o.Rate, 0), least("Power", o.Power, 0), least("Epsilon", or(o.Epsilon, 1), kernels.LeastEpsilon),
		least("Least", o.Least, 0), least("Limit", o.Limit, 0), least("Decay", o.Decay, 0))
}
