package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// LionAttrs are the attributes of Lion.
type LionAttrs struct {
	UpdateAttrs
	Beta1, Beta2 float64
}

// Lion steps by the sign of a running mean m of gradients. param -= rate·(sign(Beta1·m + (1 -
// Beta1)·g) + Decay·param); m = Beta2·m + (1 - Beta2)·g. The sign of 0 is 0. Source: Chen et al.,
// NeurIPS 2023, algorithm 2. Operands: see [UpdateAttrs]; the state is m.
var Lion = Register(update("lion", 1, true,
	func(_ *rand.Rand, u UpdateAttrs) LionAttrs { return LionAttrs{u, 0.9, 0.99} },
	func(attrs any, _ arena.DType, c []float64, p, g float64, s []float64) float64 {
		a := attrs.(LionAttrs)
		step := sign(a.Beta1*s[0] + (1-a.Beta1)*g)
		s[0] = a.Beta2*s[0] + (1-a.Beta2)*g
		return p - c[0]*(step+a.Decay*p)
	}))
