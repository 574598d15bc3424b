package optim

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// Adafactor divides the gradient by the root of a running mean of its square. For a matrix it keeps
// only the means of the squares over each row and each column: a parameter [n, m] needs n + m
// numbers of state, and 2·n·m with Adam. A vector keeps the squares of all elements. A parameter
// with more than two dimensions, such as the filters of a convolution, is a stack of matrices over
// its last two.
//
//	R, C = βₜ·(R, C) + (1-βₜ)·means over rows and columns of (g² + Epsilon);  βₜ = 1 - t^-Power
//	u = g / √(R·C / mean R);  u /= max(1, rms(u) / Limit);  p -= rate·max(rms(p), MinRMS)·u + rate·Decay·p
//
// The running mean has no bias at the start, so that no warm-up is needed. An update needs the
// whole gradient: trainer.GuardEach cannot update a parameter slice by slice.
// Source: Shazeer and Stern, 2018, algorithms 4 to 6, without momentum.
type Adafactor struct {
	Rate     float64 // 0: 0.01; update t uses min(Rate, 1/√t), unless Absolute
	Absolute bool    // update by Rate alone, without 1/√t and without the factor rms(p); 0.001 is usual
	Power    float64 // exponent of βₜ; 0: 0.8
	Epsilon  float64 // 0: 1e-30
	MinRMS   float64 // least factor rms(p), so that a bias of zeros moves, too; 0: 0.001
	Limit    float64 // largest rms of u; 0: 1
	Decay    float64 // decoupled weight decay; 0: none
}

// Op implements Optimizer.
func (Adafactor) Op() *kernels.Op { return kernels.Adafactor }

// Attrs implements Optimizer.
func (o Adafactor) Attrs(clip Clip, scaled bool) any {
	return kernels.AdafactorAttrs{UpdateAttrs: updateAttrs(clip, scaled, o.Decay),
		Epsilon: or(o.Epsilon, 1e-30), Limit: or(o.Limit, 1), Relative: !o.Absolute, Least: or(o.MinRMS, 1e-3)}
}

// States implements Optimizer.
func (Adafactor) States(param kernels.Spec) []kernels.State {
	return kernels.AdafactorStates(param)
}

// Controls implements Optimizer. dst[2] is 1 - βₜ = t^-Power.
func (o Adafactor) Controls(t int64, dst []float64) {
	dst[0], dst[1] = or(o.Rate, 0.01), float64(t)
	if !o.Absolute {
		dst[0] = min(dst[0], 1/math.Sqrt(float64(t)))
	}
	dst[2] = math.Pow(float64(t), -or(o.Power, 0.8))
}

// Validate implements Optimizer.
func (o Adafactor) Validate() error {
	return check("adafactor", checkFactor("Rate", o.Rate), checkMin("Power", o.Power, 0), checkMin("Epsilon", or(o.Epsilon, 1), kernels.LeastEpsilon),
		checkFactor("MinRMS", o.MinRMS), checkLeast("Limit", o.Limit), checkFactor("Decay", o.Decay))
}
