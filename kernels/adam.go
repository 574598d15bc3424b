package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// AdamAttrs are the attributes of Adam and AdamW.
type AdamAttrs struct {
	UpdateAttrs
	Beta1, Beta2, Epsilon float64
}

// Adam keeps running means m of gradients and v of their squares. controls[2] = 1 - Beta1^t,
// controls[3] = 1 - Beta2^t.
//
//	m = Beta1·m + (1 - Beta1)·g
//	v = Beta2·v + (1 - Beta2)·g²
//	param -= rate·(m / controls[2]) / (√(v / controls[3]) + Epsilon)
//
// An element of a gradient above 2⁶³ (float32) or 2⁵¹¹ (float64) counts as that number: its square is
// finite, and the element moves again once the mean has decayed.
//
// Source: Kingma and Ba, ICLR 2015, algorithm 1. Decay is added to the gradient. Operands: see
// [UpdateAttrs]; the states are m and v.
var Adam = Register(update("adam", 2, false, randomAdam,
	func(attrs any, t arena.DType, c []float64, p, g float64, s []float64) float64 {
		return p - c[0]*adamStep(attrs.(AdamAttrs), c, squarable(g, t), s)
	}))

// AdamW is Adam with decoupled weight decay: param -= rate·(step + Decay·param). Source: Loshchilov
// and Hutter, ICLR 2019. Operands: see [UpdateAttrs]; the states are m and v.
var AdamW = Register(update("adamw", 2, true, randomAdam,
	func(attrs any, t arena.DType, c []float64, p, g float64, s []float64) float64 {
		a := attrs.(AdamAttrs)
		return p - c[0]*(adamStep(a, c, squarable(g, t), s)+a.Decay*p)
	}))

// adamStep updates the means, and returns the step before the rate is applied.
func adamStep(a AdamAttrs, c []float64, g float64, s []float64) float64 {
	s[0] = a.Beta1*s[0] + (1-a.Beta1)*g
	s[1] = a.Beta2*s[1] + (1-a.Beta2)*g*g
	return s[0] / c[2] / (math.Sqrt(s[1]/c[3]) + a.Epsilon)
}

// apply updates an element by AdamW if decoupled, else by Adam: it changes the means s and returns
// the parameter. The means are stored with the range of type t.
func (a AdamAttrs) apply(decoupled bool, t arena.DType, c []float64, p, g float64, s []float64) float64 {
	if decoupled {
		return p - c[0]*(adamStep(a, c, squarable(g, t), s)+a.Decay*p)
	}
	return p - c[0]*adamStep(a, c, squarable(g+a.Decay*p, t), s)
}

func randomAdam(_ *rand.Rand, u UpdateAttrs) AdamAttrs { return AdamAttrs{u, 0.9, 0.999, 1e-8} }
