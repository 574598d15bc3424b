package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// CrossEntropySmooth adds [Net.CrossEntropy] with label smoothing: the target of a row is
// 1 - smoothing for its class plus smoothing/C for each of the C classes. smoothing is at least 0
// and below 1.
// logits [B, C], labels [B] → [B]. Logits are finite. Source: Szegedy et al., 2016.
func (n *Net) CrossEntropySmooth(logits, labels *gorgonia.Node, smoothing float64, name string) *gorgonia.Node {
	if !(smoothing >= 0 && smoothing < 1) {
		return n.badOption("smooth cross entropy", name, logits, "smoothing", smoothing, "must be at least 0 and below 1")
	}
	return n.classLoss("smooth cross entropy", logits, labels, name, func(c calc, x, labels kernels.Value) kernels.Value {
		rows := c.two(kernels.CrossEntropy, x, labels)
		if smoothing == 0 {
			return rows
		}
		// The cross entropy with the uniform distribution is the mean of -log softmax.
		uniform := c.rowMean(c.Apply(kernels.LogSoftmax, kernels.SoftmaxAttrs{Axis: 1}, x))
		return c.two(kernels.Sub, c.affine(rows, 1-smoothing, 0), c.affine(uniform, smoothing, 0))
	})
}

// ClassWeights adds weights[label] for each label, of type Net.Type: as [Model.Weight] it weighs
// the losses of classes that are rare or matter more, and the loss is Σ weight·loss / Σ weight.
// labels [B, ...], integers → [B, ...]. A label outside 0..len(weights)-1 ends a trainer's step
// with an error that names it: see [Net.Ignore], whose weights are multiplied with these.
func (n *Net) ClassWeights(labels *gorgonia.Node, weights []float64, name string) *gorgonia.Node {
	layer := operation("class weights", name, labels)
	if !n.operands(layer, labels) {
		return nil
	}
	bad := slices.IndexFunc(weights, func(w float64) bool { return !(w >= 0) || !finite(w) })
	switch {
	case storage[labels.Dtype()].Float():
		n.fail(fmt.Errorf("%s: labels are of type %s, must be of an integer type: %w", layer, typeString(labels.Dtype()), ErrShape))
	case len(weights) == 0:
		n.fail(fmt.Errorf("%s: there are no weights: give one for each class: %w", layer, ErrShape))
	case bad >= 0:
		n.fail(fmt.Errorf("%s: the weight of class %d is %v: it must be 0 or more and finite: %w", layer, bad, weights[bad], kernels.ErrAttrs))
	}
	table := n.Constant(weights, part(name, "table"), len(weights), 1)
	flat := n.Reshape(labels, part(name, "flat"), labels.Shape().TotalSize())
	rows := n.operate("class weights", part(name, "rows"), kernels.Gather, nil, table, flat)
	return n.Reshape(rows, name, labels.Shape()...)
}

// BinaryCrossEntropy adds the mean over each row of -target·log p - (1 - target)·log(1 - p), where
// p = sigmoid(logit): each element is a question of its own, whose answer is 1 or 0, or a
// probability.
// logits, target [B, ...] → [B]. It neither overflows nor loses the gradient p - target of any
// finite logit.
//
// positive weighs the first term, for answers that are rarely 1: nil for 1, or a node that
// broadcasts to the logits, such as a constant with one number for each label. No gradient flows
// through it.
func (n *Net) BinaryCrossEntropy(logits, target, positive *gorgonia.Node, name string) *gorgonia.Node {
	const what = "binary cross entropy"
	layer := operation(what, name, logits)
	if !n.rows(layer, logits) || !n.sameAs(layer, "target", target, "logits", logits) {
		return nil
	}
	in := gorgonia.Nodes{logits, target}
	if positive != nil {
		if !n.floats(layer, logits, positive) {
			return nil
		}
		if s, err := broadcast(logits.Shape(), positive.Shape()); err != nil || !slices.Equal([]int(s), logits.Shape()) {
			n.fail(fmt.Errorf("%s: positive weight %q is %s, which does not broadcast to the logits %s: %w", layer, positive.Name(),
				shapeString(positive.Shape()), shapeString(logits.Shape()), ErrShape))
			return nil
		}
		in = append(in, positive)
	}
	return n.compose(what, name, func(g kernels.Graph, in []kernels.Value) kernels.Value {
		// -log p = softplus(-x), -log(1-p) = softplus(x)
		c := calc{g}
		x, t := in[0], in[1]
		one := c.mul(t, c.of(kernels.Softplus, c.of(kernels.Neg, x)))
		if len(in) > 2 {
			one = c.mul(one, c.detach(in[2]))
		}
		return c.rowMean(c.two(kernels.Add, one, c.mul(c.affine(t, -1, 1), c.of(kernels.Softplus, x))))
	}, in...)
}

// Hinge adds the mean over each row of max(0, 1 - target·out), where targets are 1 or -1. Its
// gradient where target·out is 1 is 0.
// out, target [B, ...] → [B].
func (n *Net) Hinge(out, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.elementLoss("hinge", out, target, name, func(c calc, x, t kernels.Value) kernels.Value {
		return c.of(kernels.ReLU, c.affine(c.mul(t, x), -1, 1))
	})
}

// MultiHinge adds the multi-class hinge loss of each row: the mean over all C classes of
// max(0, margin - out[label] + out[class]), without the class of the label itself. margin is above 0. A
// label outside 0..C-1 makes the loss NaN.
// out [B, C], labels [B] → [B]. Source: Weston and Watkins, 1999.
func (n *Net) MultiHinge(out, labels *gorgonia.Node, margin float64, name string) *gorgonia.Node {
	if !(margin > 0) || !finite(margin) {
		return n.badOption("multi hinge", name, out, "margin", margin, "must be above 0 and finite")
	}
	return n.classLoss("multi hinge", out, labels, name, func(c calc, x, labels kernels.Value) kernels.Value {
		zero := c.scalar(x, 0)
		numbers := c.Apply(kernels.Decode, kernels.DecodeAttrs{To: c.Spec(x).Type, Scale: 1}, labels)
		right := c.two(kernels.Equal, c.column(numbers), c.indices(x, c.Spec(x).Shape[1])) // [B, C]
		own := c.column(c.rowSum(c.where(right, x, zero)))
		excess := c.where(right, zero, c.of(kernels.ReLU, c.affine(c.two(kernels.Sub, x, own), 1, margin)))
		// 1 where the row has its class, else 0/0.
		found := c.rowSum(right)
		return c.mul(c.rowMean(excess), c.two(kernels.Div, found, found))
	})
}

// KLDivergence adds the Kullback-Leibler divergence of each row from its target distribution,
// Σ target·(log target - logp), where 0·log 0 is 0: the results of [Net.LogSoftmax] are such logp.
// logp, target [B, ...] → [B].
func (n *Net) KLDivergence(logp, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.divergence("kl divergence", logp, target, name, func(_ calc, x kernels.Value) kernels.Value { return x })
}

// KLDivergenceLogits is [Net.KLDivergence] of the softmax of logits along the last axis. To learn
// from another net, target is the softmax of its logits.
func (n *Net) KLDivergenceLogits(logits, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.divergence("kl divergence", logits, target, name, func(c calc, x kernels.Value) kernels.Value {
		return c.Apply(kernels.LogSoftmax, kernels.SoftmaxAttrs{Axis: len(c.Spec(x).Shape) - 1}, x)
	})
}

// divergence adds Σ target·(log target - log x) of each row.
func (n *Net) divergence(what string, x, target *gorgonia.Node, name string, log func(c calc, x kernels.Value) kernels.Value) *gorgonia.Node {
	layer := operation(what, name, x)
	if !n.rows(layer, x) || !n.sameAs(layer, "target", target, "input", x) {
		return nil
	}
	return n.compose(what, name, func(g kernels.Graph, in []kernels.Value) kernels.Value {
		c := calc{g}
		t := in[1]
		least, _ := c.limits(t)
		own := c.of(kernels.Log, c.two(kernels.Maximum, t, c.scalar(t, least)))
		// What the target never takes may have a logp of -Inf.
		logp := c.where(t, log(c, in[0]), c.scalar(t, 0))
		return c.rowSum(c.mul(t, c.two(kernels.Sub, own, logp)))
	}, x, target)
}

// classLoss adds a loss of logits [B, C] and labels [B].
func (n *Net) classLoss(what string, logits, labels *gorgonia.Node, name string, f func(c calc, x, labels kernels.Value) kernels.Value) *gorgonia.Node {
	layer := operation(what, name, logits)
	if !n.floats(layer, logits) || !n.operands(layer, logits, labels) {
		return nil
	}
	switch {
	case logits.Dims() != 2:
		n.fail(fmt.Errorf("%s: logits %s need 2 dimensions: %w", layer, shapeString(logits.Shape()), ErrShape))
	case storage[labels.Dtype()].Float():
		n.fail(fmt.Errorf("%s: labels %q are of type %s, must be of an integer type: %w", layer, labels.Name(), typeString(labels.Dtype()), ErrShape))
	case !slices.Equal(labels.Shape(), logits.Shape()[:1]):
		n.fail(fmt.Errorf("%s: labels %q are %s, must be %s: %w", layer, labels.Name(), shapeString(labels.Shape()), shapeString(logits.Shape()[:1]), ErrShape))
	}
	return n.compose(what, name, func(g kernels.Graph, in []kernels.Value) kernels.Value { return f(calc{g}, in[0], in[1]) }, logits, labels)
}
