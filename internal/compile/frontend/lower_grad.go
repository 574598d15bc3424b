package frontend

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Gradient nodes that a program reads as values. Gorgonia's ops read results that the forward pass
// has stored in the op; these rules compute those again, and the merge pass removes the second
// computation.
//
//	maxPoolDiffOp    x, y, dy  →  maxPool, maxPoolGrad
//	batchnormDiffOp  x, dy     →  batchNorm, batchNormGrad
//	groupNormDiffOp  x, dy     →  groupNorm, groupNormGrad

// lowerMaxPoolDiff lowers the gradient of max pooling.
func lowerMaxPoolDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := maxPoolOf(n)
	if err != nil {
		return nil, err
	}
	in := children(n)
	return r.gradRule(in[0], in[2], func(x, dy kernels.Value) kernels.Value {
		s := r.Spec(x).Shape
		index := r.ApplyAll(kernels.MaxPool, a, x)[1] // positions of the maxima
		return r.Apply(kernels.MaxPoolGrad, kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{s[2], s[3]}}, index, dy)
	}), nil
}

// lowerBatchNormDiff lowers the gradient of batch normalization in training.
func lowerBatchNormDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	a, training, err := batchNormOf(n)
	if err != nil {
		return nil, err
	}
	if !training && !r.Machine || !r.Training {
		return nil, fmt.Errorf("the gradient of batch normalization outside training: %w", kernels.ErrUnsupported)
	}
	in := children(n)
	return r.gradRule(in[0], in[1], func(x, dy kernels.Value) kernels.Value {
		one, zero := r.channelConst(x, 1), r.channelConst(x, 0)
		y := r.ApplyAll(kernels.BatchNorm, a, x, one, zero)
		return r.Apply(kernels.BatchNormGrad, a, x, one, zero, y[1], y[2], dy)
	}), nil
}

// lowerGroupNormDiff lowers the gradient of group normalization.
func lowerGroupNormDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := groupNormOf(n)
	if err != nil {
		return nil, err
	}
	in := children(n)
	return r.gradRule(in[0], in[1], func(x, dy kernels.Value) kernels.Value {
		one := r.channelConst(x, 1)
		y := r.ApplyAll(kernels.GroupNorm, a, x, one, r.channelConst(x, 0))
		return r.Apply(kernels.GroupNormGrad, a, x, one, y[1], y[2], dy)
	}), nil
}

// gradRule returns the rule of a gradient that is computed from x and dy.
func (r *reader) gradRule(x, dy *gorgonia.Node, grad func(x, dy kernels.Value) kernels.Value) *rule {
	return &rule{in: gorgonia.Nodes{x, dy}, build: func(v []kernels.Value) (kernels.Value, error) {
		return grad(v[0], v[1]), nil
	}}
}
