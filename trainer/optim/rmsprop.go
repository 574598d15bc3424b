package optim

import "github.com/evenkeel/evenkeel/kernels"

// RMSProp divides the gradient by the root of a running mean of its square.
//
//	s = Rho·s + (1-Rho)·g²;  p -= rate·g / (√s + Epsilon)
//
// Source: Hinton, Neural Networks for Machine Learning, lecture 6e. Epsilon outside the root is
// PyTorch's form.
type RMSProp struct {
	Rate    float64 // 0: 0.001
	Rho     float64 // 0: 0.9
	Epsilon float64 // 0: 1e-8
	Decay   float64 // L2 penalty: Decay·p is added to the gradient; 0: none
}

// Op implements Optimizer.
func (RMSProp) Op() *kernels.Op { return kernels.RMSProp }

// Attrs implements Optimizer.
func (o RMSProp) Attrs(clip Clip, scaled bool) any {
	return kernels.RMSPropAttrs{UpdateAttrs: updateAttrs(clip, scaled, o.Decay), Rho: or(o.Rho, 0.9), Epsilon: or(o.Epsilon, 1e-8)}
}

// States implements Optimizer.
func (RMSProp) States(param kernels.Spec) []kernels.State { return statesLike(param, "square") }

// Controls implements Optimizer.
func (o RMSProp) Controls(t int64, dst []float64) { dst[0], dst[1] = or(o.Rate, 1e-3), float64(t) }

// Validate implements Optimizer.
func (o RMSProp) Validate() error {
	return check("rmsprop", checkFactor("Rate", o.Rate), checkFraction("Rho", o.Rho), checkEpsilon(o.Epsilon, or(o.Rho, 0.9)), checkFactor("Decay", o.Decay))
}
