package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Chains that end in a reduction: y = reduce(f(a, b, …)). The last step's result is never stored
// whole, because the reduction reads it tile by tile.
//
//	workspace: | the chain's tiles | the reduction's partial sums |

// endsInReduction returns a chain's attributes, and whether it ends in a reduction.
func endsInReduction(attrs any) (*kernels.ChainAttrs, bool) {
	a, ok := attrs.(*kernels.ChainAttrs)
	return a, ok && a.Reduce != nil
}

// chainWork returns the workspace of a chain in bytes, with that of its reduction if it has one.
func chainWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	a, ok := endsInReduction(attrs)
	if !ok {
		return elementwiseWork(kernels.Chain)(d, attrs, in, out)
	}
	last, err := a.Last(in)
	if err != nil {
		return 0
	}
	r, err := newChainPlan(kernels.Chain, a, in, last, true)
	if err != nil {
		return 0
	}
	return r.bytes(d.pool.threads()) + reduceWork(d, a.ReduceAttrs, []kernels.Spec{last}, out)
}

// bindChain prepares a chain.
func bindChain(b *binding) (func(), error) {
	a, ok := endsInReduction(b.Attrs)
	switch {
	case !ok:
		return bindElementwise(b)
	case b.Out[0].Type == arena.Float32:
		return bindChainOf[float32](b, a)
	case b.Out[0].Type == arena.Float64:
		return bindChainOf[float64](b, a)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindChainOf binds a chain that ends in a reduction: the reduction pulls tiles from the engine.
func bindChainOf[T float](b *binding, a *kernels.ChainAttrs) (func(), error) {
	last, err := a.Last(kernels.Specs(b.In))
	if err != nil {
		return nil, fmt.Errorf("chain: %w", err)
	}
	r, err := newChainPlan(kernels.Chain, a, kernels.Specs(b.In), last, true)
	if err != nil {
		return nil, err
	}
	// The workspace: the chain's tiles, then the reduction's partial sums.
	tiles := r.bytes(b.dev.pool.threads())
	work := b.work()
	e := newEngine[T](b, r, work[:tiles])
	run := reduceFrom(b, a.Reduce, a.ReduceAttrs, last.Shape, out[T](b, 0), work[tiles:], nil, e.compute)
	if run == nil {
		return nil, nil
	}
	return func() {
		e.invalidateTiles()
		run()
	}, nil
}
