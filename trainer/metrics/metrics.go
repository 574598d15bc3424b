// Package metrics adds metrics to a model: accuracy, confusion matrices, errors of regression and
// others. Each constructor adds nodes that sum over the rows of a batch, and returns a [layers.Metric]
// for Model.Metrics:
//
//	m, err := net.Classifier(x, logits)
//	confusion := metrics.Confusion(net, logits, y, nil)
//	m.Metrics = []layers.Metric{confusion, metrics.TopK(net, logits, y, 5, nil)}
//
// Evaluate adds the sums up over all batches, so that the value is that of the whole dataset, whatever
// the size of a batch and of the last, short one. Sums are float64: counts are exact.
//
// Every constructor takes weights: nil, or one number, 0 or more, for each thing that is measured. A
// weight of 0 leaves it out; the weights that [layers.Net.Ignore] returns leave out ignored labels. A
// model with weights passes its Model.Weight if the metric should count as the loss does. A value whose
// weights are all 0 is NaN.
//
// The caller may change the Name of a metric, which must be unique in its model. A mistake, such as a
// shape that does not fit, becomes the error of the net.
package metrics

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Mean measures the mean of x, floats or integers of any shape whose dimension 0 is the batch: a user's
// own metric of each row.
//
//	value Σ w·x / Σ w     sums [2] Σ w·x, Σ w
//
// weight has the shape of x, or its first dimensions.
func Mean(net *layers.Net, name string, x, weight *gorgonia.Node) layers.Metric {
	return layers.Metric{Name: name, Sum: total(net, name, weight, x), Value: ratio}
}

// ratio is the first sum divided by the last, the sum of weights.
func ratio(s []float64) float64 { return s[0] / s[len(s)-1] }

// total adds the vector of Σ w·x for each x, and Σ w. Each x has the same shape.
func total(net *layers.Net, name string, weight *gorgonia.Node, xs ...*gorgonia.Node) *gorgonia.Node {
	if !usable(net, name, xs...) {
		return nil
	}
	w, count := weights(net, name, weight, xs[0].Shape())
	if net.Err() != nil {
		return nil
	}
	if count == nil {
		count = net.Sum(ones(net, wide(net, xs[0])), "", layers.Reduce{})
	}
	var sums gorgonia.Nodes
	for _, x := range xs {
		x = wide(net, x)
		if w != nil {
			x = chosen(net, w, net.Mul(x, w, ""))
		}
		sums = append(sums, one(net, net.Sum(x, "", layers.Reduce{})))
	}
	return net.Concat(append(sums, one(net, count)), "", 0)
}

// one adds x, of one element, as a vector.
func one(net *layers.Net, x *gorgonia.Node) *gorgonia.Node { return net.Reshape(x, "", 1) }

// chosen adds x where the weight is not 0, and 0 elsewhere, even where x is NaN.
func chosen(net *layers.Net, weight, x *gorgonia.Node) *gorgonia.Node {
	return net.Where(weight, x, number(net, 0), "")
}

// wide adds x as float64.
func wide(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	if x == nil || x.Dtype() == tensor.Float64 {
		return x
	}
	return net.Cast(x, "", tensor.Float64)
}

// number adds a whole number as a float64.
func number(net *layers.Net, x int) *gorgonia.Node {
	return net.Cast(net.Constant(x, ""), "", tensor.Float64)
}

// ones adds a 1 for each element of x. It is no constant: the compiler merges equal constants, and the
// program of a short batch whose rows equal another number would differ from that of the full one.
func ones(net *layers.Net, x *gorgonia.Node) *gorgonia.Node { return net.Equal(x, x, "") }

// usable reports whether the net has no error and all nodes exist, and records an error if not.
func usable(net *layers.Net, name string, xs ...*gorgonia.Node) bool {
	if net.Err() != nil {
		return false
	}
	if slices.Contains(xs, nil) {
		net.Fail(fmt.Errorf("metric %q: a node is nil: %w", name, layers.ErrNode))
		return false
	}
	for _, x := range xs {
		if x.Dims() == 0 {
			net.Fail(fmt.Errorf("metric %q: %q is a scalar: it needs one row for each sample: %w", name, x.Name(), layers.ErrShape))
			return false
		}
	}
	return true
}

// weights returns the weights as float64 that broadcast with a value of a shape, and their sum over all
// elements of the value; nil for nil. It records an error if they do not fit.
func weights(net *layers.Net, name string, weight *gorgonia.Node, shape tensor.Shape) (w, sum *gorgonia.Node) {
	if weight == nil {
		return nil, nil
	}
	dims := weight.Dims()
	if dims == 0 || dims > len(shape) || !slices.Equal(weight.Shape(), shape[:dims]) {
		net.Fail(fmt.Errorf("metric %q: weight %q is %v, must be %v or its first dimensions: %w", name, weight.Name(), weight.Shape(), shape, layers.ErrShape))
		return nil, nil
	}
	w = wide(net, weight)
	sum = net.Sum(w, "", layers.Reduce{})
	if each := shape.TotalSize() / weight.Shape().TotalSize(); each > 1 {
		sum = net.Affine(sum, "", float64(each), 0)
	}
	if dims < len(shape) {
		to := slices.Clone(shape)
		for i := dims; i < len(to); i++ {
			to[i] = 1
		}
		w = net.Reshape(w, "", to...)
	}
	return w, sum
}

// same records an error unless both nodes have one shape.
func same(net *layers.Net, name string, x, y *gorgonia.Node) bool {
	if !usable(net, name, x, y) {
		return false
	}
	if !slices.Equal(x.Shape(), y.Shape()) {
		net.Fail(fmt.Errorf("metric %q: %q is %v and %q is %v: they must have the same shape: %w", name,
			x.Name(), x.Shape(), y.Name(), y.Shape(), layers.ErrShape))
	}
	return net.Err() == nil
}
