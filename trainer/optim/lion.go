package optim

import "github.com/evenkeel/evenkeel/kernels"

// Lion moves every element by the rate, in the direction of the sign of a running mean. It keeps one state where Adam keeps two.
//
//	u = sign(Beta1·m + (1-Beta1)·g);  m = Beta2·m + (1-Beta2)·g;  p -= rate·(u + Decay·p)
//
// Source: Chen et al., 2023, algorithm 2. It wants a rate 3 to 10 times smaller than Adam's.
type Lion struct {
	Rate  float64 // 0: 0.0001
	Beta1 float64 // 0: 0.9
	Beta2 float64 // 0: 0.99
	Decay float64 // decoupled
}

// Op implements Optimizer.
func (Lion) Op() *kernels.Op { return kernels.Lion }

// Attrs implements Optimizer.
func (o Lion) Attrs(clip Clip, scaled bool) any {
	return kernels.LionAttrs{UpdateAttrs: update(clip, scaled, o.Decay), Beta1: or(o.Beta1, 0.9), Beta2: or(o.Beta2, 0.99)}
}

// States implements Optimizer.
func (Lion) States(param kernels.Spec) []kernels.State { return like(param, "m") }

// Controls implements Optimizer.
func (o Lion) Controls(t int64, dst []float64) { dst[0], dst[1] = or(o.Rate, 1e-4), float64(t) }

// Validate implements Optimizer.
func (o Lion) Validate() error {
	return check("lion", least("Rate", o.Rate, 0), share("Beta1", o.Beta1), share("Beta2", o.Beta2), least("Decay", o.Decay, 0))
}
