package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// SGDAttrs are the attributes of SGD.
type SGDAttrs struct{ UpdateAttrs }

// SGD is plain gradient descent; it has no state. param -= rate·g. Operands: see [UpdateAttrs].
var SGD = Register(update("sgd", 0, false,
	func(_ *rand.Rand, u UpdateAttrs) SGDAttrs { return SGDAttrs{u} },
	func(_ any, _ arena.DType, c []float64, p, g float64, _ []float64) float64 { return p - c[0]*g }))

// MomentumAttrs are the attributes of Momentum.
type MomentumAttrs struct {
	UpdateAttrs
	Momentum float64
	Nesterov bool
}

// Momentum keeps a velocity v. v = Momentum·v + g; param -= rate·v, with Nesterov rate·(g +
// Momentum·v). Source: Sutskever et al., ICML 2013, in the form in which the rate is outside the
// velocity (PyTorch's). A velocity is at most the largest finite number of its type. Operands: see [UpdateAttrs]; the state is v.
var Momentum = Register(update("momentum", 1, false,
	func(r *rand.Rand, u UpdateAttrs) MomentumAttrs { return MomentumAttrs{u, 0.9, r.IntN(2) == 0} },
	func(attrs any, t arena.DType, c []float64, p, g float64, s []float64) float64 {
		a, most := attrs.(MomentumAttrs), numeric.MostFinite(t)
		s[0] = within(a.Momentum*s[0]+g, most)
		if a.Nesterov {
			return p - c[0]*within(g+a.Momentum*s[0], most)
		}
		return p - c[0]*s[0]
	}))
