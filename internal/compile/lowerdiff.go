package compile

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Gorgonia's gradients of images' operations read what the forward pass left behind in the op. Ours compute that again, and
// merging finds that it is there.

// lowerMaxPoolDiff reads the gradient of max pooling, of its operand, result and the result's gradient.
func lowerMaxPoolDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := maxPoolOf(n)
	if err != nil {
		return nil, err
	}
	in := children(n)
	return r.again(in[0], in[2], func(x, dy kernels.Value) kernels.Value {
		s := r.Spec(x).Shape
		return r.Apply(kernels.MaxPoolGrad, kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{s[2], s[3]}}, r.ApplyAll(kernels.MaxPool, a, x)[1], dy)
	}), nil
}

// lowerBatchNormDiff reads the gradient of batch normalization in training, of its operand and the result's gradient.
func lowerBatchNormDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	a, training, err := batchNormOf(n)
	if err != nil {
		return nil, err
	}
	if !training || !r.training() {
		return nil, fmt.Errorf("the gradient of batch normalization after training: %w", ErrUnsupported)
	}
	in := children(n)
	return r.again(in[0], in[1], func(x, dy kernels.Value) kernels.Value {
		one, zero := r.channels(x, 1), r.channels(x, 0)
		y := r.ApplyAll(kernels.BatchNorm, a, x, one, zero)
		return r.Apply(kernels.BatchNormGrad, a, x, one, zero, y[1], y[2], dy)
	}), nil
}

// lowerGroupNormDiff reads the gradient of group normalization, of its operand and the result's gradient.
func lowerGroupNormDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := groupNormOf(n)
	if err != nil {
		return nil, err
	}
	in := children(n)
	return r.again(in[0], in[1], func(x, dy kernels.Value) kernels.Value {
		one := r.channels(x, 1)
		y := r.ApplyAll(kernels.GroupNorm, a, x, one, r.channels(x, 0))
		return r.Apply(kernels.GroupNormGrad, a, x, one, y[1], y[2], dy)
	}), nil
}

// again is the rule of a gradient of x from dy.
func (r *reader) again(x, dy *gorgonia.Node, grad func(x, dy kernels.Value) kernels.Value) *rule {
	return &rule{in: gorgonia.Nodes{x, dy}, build: func(v []kernels.Value) (kernels.Value, error) { return grad(v[0], v[1]), nil }}
}
