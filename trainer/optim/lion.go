package optim

import "github.com/evenkeel/evenkeel/kernels"

// Lion moves every element by the rate, in the direction of the sign of a running mean of the
// gradient. It keeps one state for each parameter, Adam two. It needs a rate 3 to 10 times smaller
// than Adam's.
//
//	u = sign(Beta1·m + (1-Beta1)·g);  m = Beta2·m + (1-Beta2)·g;  p -= rate·(u + Decay·p)
//
// Source: Chen et al., 2023, algorithm 2.
type Lion struct {
	Rate  float64 // 0: 0.0001
	Beta1 float64 // 0: 0.9
	Beta2 float64 // 0: 0.99
	Decay float64 // decoupled weight decay; 0: none
}

// Op implements Optimizer.
func (Lion) Op() *kernels.Op { return kernels.Lion }

// Attrs implements Optimizer.
func (o Lion) Attrs(clip Clip, scaled bool) any {
	return kernels.LionAttrs{UpdateAttrs: updateAttrs(clip, scaled, o.Decay), Beta1: or(o.Beta1, 0.9), Beta2: or(o.Beta2, 0.99)}
}

// States implements Optimizer.
func (Lion) States(param kernels.Spec) []kernels.State { return statesLike(param, "m") }

// Controls implements Optimizer.
func (o Lion) Controls(t int64, dst []float64) { dst[0], dst[1] = or(o.Rate, 1e-4), float64(t) }

// Validate implements Optimizer.
func (o Lion) Validate() error {
	return check("lion", checkFactor("Rate", o.Rate), checkFraction("Beta1", o.Beta1), checkFraction("Beta2", o.Beta2), checkFactor("Decay", o.Decay))
}
