package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// RMSPropAttrs are the attributes of RMSProp.
type RMSPropAttrs struct {
	UpdateAttrs
	Rho, Epsilon float64
}

// RMSProp divides gradients by the root of a running mean s of their squares. s = Rho·s + (1 -
// Rho)·g²; param -= rate·g / (√s + Epsilon), where g is at most numeric.MostSquared. Source: Hinton's lecture 6e. Operands: see
// [UpdateAttrs]; the state is s.
var RMSProp = Register(update("rmsprop", 1, false,
	func(_ *rand.Rand, u UpdateAttrs) RMSPropAttrs { return RMSPropAttrs{u, 0.9, 1e-8} },
	func(attrs any, t arena.DType, c []float64, p, g float64, s []float64) float64 {
		a := attrs.(RMSPropAttrs)
		g = squarable(g, t)
		s[0] = a.Rho*s[0] + (1-a.Rho)*g*g
		return p - c[0]*g/(math.Sqrt(s[0])+a.Epsilon)
	}))
