package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// The softmax, and the cross entropy as a sum over it. p is a log-softmax of logits [B, C], y has
// the shape of p.
//
//	softmaxOp                  →  softmax, log_softmax
//	softmaxDiffOp              →  softmax_grad, log_softmax_grad
//	-Σ p ⊙ y, or -Σ p ⊙ y ÷ n  →  cross_entropy_dense of the logits

// crossEntropy is Σ log softmax(logits) ⊙ target, summed over each row, or over all elements.
type crossEntropy struct {
	logits, target *gorgonia.Node
	all            bool
}

// matchCrossEntropy recognises the sum of logarithms of class probabilities, weighted by a target
// of the same shape. The instruction that it becomes computes from the logits, so that it never
// takes the logarithm of 0.
func (r *reader) matchCrossEntropy(n *gorgonia.Node) (e crossEntropy, ok bool) {
	if !isOp(n, "gorgonia.sumOp") {
		return e, false
	}
	axes, err := axesOf(n)
	prod := children(n)[0]
	if err != nil || !isOp(prod, opMul) || len(prod.Shape()) != 2 {
		return e, false
	}
	switch {
	case axes == nil || slices.Equal(axes, []int{0, 1}):
		e.all = true
	case !slices.Equal(axes, []int{1}):
		return e, false
	}
	in := children(prod)
	for i, p := range in { // p ⊙ y or y ⊙ p
		if !isOp(p, "*gorgonia.softmaxOp") || !shapeOf(p).Equal(shapeOf(in[1-i])) {
			continue
		}
		axis, log, err := softmaxOf(p)
		if err == nil && log && axis == 1 {
			e.logits, e.target = children(p)[0], in[1-i]
			return e, e.logits.Dtype() == e.target.Dtype()
		}
	}
	return e, false
}

// rule returns the rule of -Σ log softmax(logits) ⊙ target ÷ count: count is the number of rows for
// a mean, 1 for a sum, and negative where the graph has no minus sign.
func (e crossEntropy) rule(r *reader, count float64) *rule {
	return &rule{in: gorgonia.Nodes{e.logits, e.target}, build: func(v []kernels.Value) (kernels.Value, error) {
		sum := r.Apply(kernels.CrossEntropyDense, nil, v...)
		if e.all {
			sum = r.Apply(kernels.Sum, kernels.ReduceAttrs{}, sum)
		}
		switch count {
		case 1:
			return sum, nil
		case -1:
			return r.Apply(kernels.Neg, nil, sum), nil
		}
		return r.Apply(kernels.Div, nil, sum, r.fill(r.Spec(sum).Type, kernels.Shape{}, count)), nil
	}}
}

// softmaxOf returns the axis of a softmax, and whether it is a log-softmax. The default axis is the
// last one, or 0 for a column, which Gorgonia treats as a vector.
func softmaxOf(n *gorgonia.Node) (axis int, log bool, err error) {
	f, shape := fields{n.Op()}, children(n)[0].Shape()
	if log, err = f.Bool("isLog"); err != nil {
		return 0, false, err
	}
	if axis, err = f.Int("axis"); err != nil {
		return 0, false, err
	}
	if axis == -1 {
		axis = len(shape) - 1
		if shape.IsColVec() {
			axis = 0
		}
	}
	if axis < 0 || axis >= len(shape) {
		return 0, false, fmt.Errorf("axis %d of %v: %w", axis, shape, kernels.ErrShape)
	}
	return axis, log, nil
}

// lowerSoftmax lowers a softmax or a log-softmax.
func lowerSoftmax(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, log, err := softmaxOf(n)
	if err != nil {
		return nil, err
	}
	op := kernels.Softmax
	if log {
		op = kernels.LogSoftmax
	}
	return r.applyRule(op, kernels.SoftmaxAttrs{Axis: axis}, children(n)[0]), nil
}

// lowerSoftmaxDiff lowers the gradient of a softmax. Operands: x, y and dy; x is not needed.
func lowerSoftmaxDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, log, err := softmaxOf(n)
	if err != nil {
		return nil, err
	}
	op := kernels.SoftmaxGrad
	if log {
		op = kernels.LogSoftmaxGrad
	}
	return r.applyRule(op, kernels.SoftmaxAttrs{Axis: axis}, children(n)[1:]...), nil
}
