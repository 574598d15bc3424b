package optim

import (
	"errors"

	"github.com/evenkeel/evenkeel/kernels"
)

var errNesterov = errors.New("option Nesterov needs Momentum: 0.9 is usual")

// SGD is stochastic gradient descent, plain, with momentum, or with Nesterov momentum.
//
//	v = Momentum·v + g;  p -= rate·v                (Nesterov: p -= rate·(g + Momentum·v))
//
// Source: Sutskever et al., 2013, in the form of PyTorch's torch.optim.SGD: the rate multiplies the
// velocity when it is used, so that a new rate takes effect at once.
type SGD struct {
	Rate     float64 // 0: 0.01
	Momentum float64 // factor of the velocity v, below 1; 0: plain descent, without state
	Nesterov bool    // use the form in brackets; needs Momentum
	Decay    float64 // L2 penalty: Decay·p is added to the gradient; 0: none
}

// Op implements Optimizer.
func (o SGD) Op() *kernels.Op {
	if o.Momentum == 0 {
		return kernels.SGD
	}
	return kernels.Momentum
}

// Attrs implements Optimizer.
func (o SGD) Attrs(clip Clip, scaled bool) any {
	if o.Momentum == 0 {
		return kernels.SGDAttrs{UpdateAttrs: updateAttrs(clip, scaled, o.Decay)}
	}
	return kernels.MomentumAttrs{UpdateAttrs: updateAttrs(clip, scaled, o.Decay), Momentum: o.Momentum, Nesterov: o.Nesterov}
}

// States implements Optimizer.
func (o SGD) States(param kernels.Spec) []kernels.State {
	if o.Momentum == 0 {
		return nil
	}
	return statesLike(param, "velocity")
}

// Controls implements Optimizer.
func (o SGD) Controls(t int64, dst []float64) { dst[0], dst[1] = or(o.Rate, 0.01), float64(t) }

// Validate implements Optimizer.
func (o SGD) Validate() error {
	return check("sgd", checkFactor("Rate", o.Rate), checkFraction("Momentum", o.Momentum), checkFactor("Decay", o.Decay), o.nesterov())
}

// nesterov returns an error if Nesterov is set without Momentum.
func (o SGD) nesterov() error {
	if o.Nesterov && o.Momentum == 0 {
		return errNesterov
	}
	return nil
}
