package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
)

// bindMix prepares a move of x towards y.
func bindMix(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindMixOf[float32](b), nil
	case arena.Float64:
		return bindMixOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindMixOf binds the move for T. It is gradient descent on (x - y)²/2: the rule of SGD with y as the
// gradient, a decay of -1 and a rate of -weight.
func bindMixOf[T float](b *binding) func() {
	guard, weight, sgd := in[int32](b, 2), in[float64](b, 3), update.At[T](b.dev.level).SGD
	r := &update.Rule[T]{P: in[T](b, 0), G: in[T](b, 1), Prepare: 1, Decay: -1,
		Scale: 1, Down: 1, Min: T(math.Inf(-1)), Max: T(math.Inf(1))}
	some := func(lo, hi, _ int) { sgd(r, lo, hi) }
	copies := func(lo, hi, _ int) { copy(r.P[lo:hi], r.G[lo:hi]) }
	all, copyAll := func() { some(0, len(r.P), 0) }, func() { copies(0, len(r.P), 0) }
	if len(r.P) > updateGrain {
		all, copyAll = b.parallelFor(len(r.P), updateGrain, some), b.parallelFor(len(r.P), updateGrain, copies)
	}
	return func() {
		switch {
		case guard[0] != 0 || weight[0] == 0:
		case weight[0] == 1:
			copyAll()
		default:
			r.Coef[0] = T(-weight[0])
			all()
		}
	}
}
