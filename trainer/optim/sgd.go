package optim

import (
	"errors"

	"github.com/evenkeel/evenkeel/kernels"
)

var errNesterov = errors.New("option Nesterov needs Momentum, 0.9 is usual")

// SGD is stochastic gradient descent, with or without momentum.
//
//	v = Momentum·v + g;  p -= rate·v                (Nesterov: p -= rate·(g + Momentum·v))
//
// Source: Sutskever et al., 2013, in the form that PyTorch's torch.optim.SGD documents: the rate multiplies the
// velocity at its use, so that a change of rate acts at once.
type SGD struct {
	Rate     float64 // 0: 0.01
	Momentum float64 // share of the velocity that is kept; 0: none, and no state
	Nesterov bool    // looks ahead; needs Momentum
	Decay    float64 // L2: Decay·p is added to the gradient
}

// Op implements Optimizer.
func (o SGD) Op() *kernels.Op {
	if o.Momentum == 0 {
		return kernels.Sgd
	}
	return kernels.Momentum
}

// Attrs implements Optimizer.
func (o SGD) Attrs(clip Clip, scaled bool) any {
	if o.Momentum == 0 {
		return kernels.SgdAttrs{UpdateAttrs: update(clip, scaled, o.Decay)}
	}
	return kernels.MomentumAttrs{UpdateAttrs: update(clip, scaled, o.Decay), Momentum: o.Momentum, Nesterov: o.Nesterov}
}

// States implements Optimizer.
func (o SGD) States(param kernels.Spec) []kernels.State {
	if o.Momentum == 0 {
		return nil
	}
	return like(param, "velocity")
}

// Controls implements Optimizer.
func (o SGD) Controls(t int64, dst []float64) { dst[0], dst[1] = or(o.Rate, 0.01), float64(t) }

// Validate implements Optimizer.
func (o SGD) Validate() error {
	return check("sgd", least("Rate", o.Rate, 0), share("Momentum", o.Momentum), least("Decay", o.Decay, 0), o.nesterov())
}

func (o SGD) nesterov() error {
	if o.Nesterov && o.Momentum == 0 {
		return errNesterov
	}
	return nil
}
