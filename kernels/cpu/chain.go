package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A chain that ends in a reduction makes its last step's result in the workspace and reduces it there:
//
//	workspace: | result of the last step | the chain's tiles | the reduction's partial sums |

// chainParts returns the sizes of the three parts, in bytes.
func chainParts(d *Device, a *kernels.ChainAttrs, in, out []kernels.Spec) (last kernels.Spec, parts [3]int64, err error) {
	last, err = a.Last(in)
	if err != nil {
		return last, parts, err
	}
	mid := []kernels.Spec{last}
	parts = [3]int64{last.Bytes(), elementwiseWork(kernels.Chain)(d, a, in, mid), reduceWork(d, a.ReduceAttrs, mid, out)}
	for k := range parts {
		parts[k] = (parts[k] + tileAlign - 1) &^ (tileAlign - 1)
	}
	return last, parts, nil
}

func chainWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	a, ok := attrs.(*kernels.ChainAttrs)
	if !ok || a.Reduce == nil {
		return elementwiseWork(kernels.Chain)(d, attrs, in, out)
	}
	_, parts, err := chainParts(d, a, in, out)
	if err != nil {
		return 0
	}
	return parts[0] + parts[1] + parts[2]
}

func bindChain(b *binding) (func(), error) {
	a, ok := b.Attrs.(*kernels.ChainAttrs)
	if !ok || a.Reduce == nil {
		return bindElementwise(b)
	}
	last, parts, err := chainParts(b.dev, a, kernels.Specs(b.In), kernels.Specs(b.Out))
	if err != nil {
		return nil, fmt.Errorf("chain: %w", err)
	}
	at := b.Work
	part := func(k int, bytes int64) arena.Ref {
		ref := arena.Ref{Region: at.Region, Offset: at.Offset, Size: bytes}
		at.Offset += parts[k]
		return ref
	}
	mid := kernels.Operand{Spec: last, Ref: part(0, last.Bytes())}
	steps, sum := *b, *b
	steps.Attrs, steps.Out, steps.Work = &kernels.ChainAttrs{Steps: a.Steps}, []kernels.Operand{mid}, part(1, parts[1])
	sum.Op, sum.Attrs, sum.In, sum.Work = a.Reduce, a.ReduceAttrs, []kernels.Operand{mid}, part(2, parts[2])
	compute, err := bindElementwise(&steps)
	if err != nil {
		return nil, err
	}
	reduce, err := bindReduce(&sum)
	switch {
	case err != nil:
		return nil, err
	case compute == nil:
		return reduce, nil
	case reduce == nil:
		return nil, nil
	}
	return func() {
		compute()
		reduce()
	}, nil
}
