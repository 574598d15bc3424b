package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Losses of classes.
var lossRules = map[string][]rule{
	"NegativeLogLikelihoodLoss": {{since: 12, apply: func(c *call) []*value { return c.one(c.likelihood(c.float(0))) }}},
	"SoftmaxCrossEntropyLoss": {{since: 12, apply: func(c *call) []*value {
		if len(c.shape(0)) < 2 {
			mismatch("%v has no classes", c.shape(0))
		}
		log := c.Apply(kernels.LogSoftmax, kernels.SoftmaxAttrs{Axis: 1}, c.float(0))
		return append(c.one(c.likelihood(log)), c.out(log, c.must(0).typ))
	}}},
}

// likelihood is minus the element of x at the class, times the weight of the class: as a mean by
// the weights, a sum, or for each class.
//
//	x [N, C, …], classes [N, …] (, weight [C]) → loss [N, …], or a number
//
// A class that is ignored, or outside 0 … C-1, has a loss of 0.
func (c *call) likelihood(x kernels.Value) kernels.Value {
	s, target := c.Spec(x).Shape, c.must(1)
	if len(s) < 2 || !slices.Equal(slices.Delete(slices.Clone(s), 1, 2), target.shape) {
		mismatch("classes %v for %v", target.shape, s)
	}
	index := c.reshape(c.integers(1), slices.Insert(slices.Clone(target.shape), 1, 1))
	equal := func(a, b kernels.Value) kernels.Value {
		return c.as(c.index(kernels.IntegerEqual, a, b), c.Spec(x).Type)
	}
	hit := equal(index, c.numbered(len(s), 1, s[1]))
	zero, one := c.scalar(x, 0), kernels.ReduceAttrs{Axes: []int{1}}
	loss := c.of(kernels.Neg, sumOf(c, c.Apply(kernels.Where, nil, hit, x, zero), one))
	weight := kernels.None
	if c.arg(2) != nil {
		weight = sumOf(c, c.Apply(kernels.Where, nil, hit, c.reshape(c.float(2), line(len(s), 1, s[1])), zero), one)
		loss = c.mul(loss, weight)
	}
	if a := c.n.Attribute("ignore_index"); a != nil {
		ignored := equal(c.reshape(c.integers(1), target.shape), c.indices([]int{int(a.I)}))
		if weight == kernels.None {
			weight = c.scalar(x, 1)
		}
		// A choice, not a product: what is ignored may be infinite.
		loss = c.Apply(kernels.Where, nil, ignored, zero, loss)
		weight = c.Apply(kernels.Where, nil, ignored, zero, weight)
	}
	switch mode := c.attrText("reduction", "mean"); {
	case mode == "none":
	case mode == "sum":
		loss = sumOf(c, loss, kernels.ReduceAttrs{})
	case mode != "mean":
		badAttribute("reduction is %q", mode)
	case weight == kernels.None:
		loss = meanOf(c, loss, kernels.ReduceAttrs{})
	default:
		loss = c.two(kernels.Div, sumOf(c, loss, kernels.ReduceAttrs{}), sumOf(c, weight, kernels.ReduceAttrs{}))
	}
	return loss
}
