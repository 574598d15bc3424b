package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Losses return one number for each row of the batch, [B]: of rows with several elements, the mean
// over these. Net.Model makes a model of them. Their names may be empty. Targets are constants to
// most programs, and have gradients all the same. The files loss_class.go and loss_pair.go have the
// losses of classes and of pairs of vectors.

// Model returns a model that minimises losses, one number for each row or a scalar, and predicts
// out. It has all inputs, parameters and running statistics of the net. weight is nil, and then the
// mean of the losses is minimised, or has the type and shape of the losses, as in [Model.Weight].
func (n *Net) Model(out, losses, weight *gorgonia.Node) (Model, error) {
	if !n.ready("model", losses) || out != nil && !n.operands("model", out) {
		return Model{}, n.err
	}
	switch {
	case weight != nil:
		n.sameAs("model", "weight", weight, "losses", losses)
	case losses.Dims() > 0:
		losses = n.Mean(losses, "", Reduce{})
	}
	if n.err != nil {
		return Model{}, n.err
	}
	return Model{Inputs: slices.Clone(n.inputs), Output: out, Loss: losses, Weight: weight,
		Params: slices.Clone(n.params), Statistics: slices.Clone(n.statistics)}, nil
}

// SquaredError adds the mean over each row of (out - target)², the L2 loss.
// out, target [B, ...] → [B].
func (n *Net) SquaredError(out, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.elementLoss("squared error", out, target, name, func(c calc, x, t kernels.Value) kernels.Value {
		return c.of(kernels.Square, c.two(kernels.Sub, x, t))
	})
}

// AbsoluteError adds the mean over each row of |out - target|, the L1 loss. Its gradient where both
// are equal is 0.
// out, target [B, ...] → [B].
func (n *Net) AbsoluteError(out, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.elementLoss("absolute error", out, target, name, func(c calc, x, t kernels.Value) kernels.Value {
		return c.of(kernels.Abs, c.two(kernels.Sub, x, t))
	})
}

// Huber adds the mean over each row of e²/2 where e = |out - target| is at most delta, and of
// delta·(e - delta/2) where it is larger. Its slope is at most delta, which is above 0; with a
// delta of 1 it is also called smooth L1.
// out, target [B, ...] → [B]. Source: Huber, 1964.
func (n *Net) Huber(out, target *gorgonia.Node, delta float64, name string) *gorgonia.Node {
	if !(delta > 0) || !finite(delta) {
		return n.badOption("huber", name, out, "delta", delta, "must be above 0 and finite")
	}
	return n.elementLoss("huber", out, target, name, func(c calc, x, t kernels.Value) kernels.Value {
		// q²/2 + δ·(e-q), q = min(e, δ): its slope at e = δ is δ, however the minimum shares it.
		e := c.of(kernels.Abs, c.two(kernels.Sub, x, t))
		q := c.two(kernels.Minimum, e, c.scalar(x, delta))
		return c.two(kernels.Add, c.affine(c.of(kernels.Square, q), 0.5, 0), c.affine(c.two(kernels.Sub, e, q), delta, 0))
	})
}

// elementLoss adds the mean over each row of f of the elements of out and target.
func (n *Net) elementLoss(what string, out, target *gorgonia.Node, name string, f func(c calc, x, t kernels.Value) kernels.Value) *gorgonia.Node {
	layer := operation(what, name, out)
	if !n.rows(layer, out) || !n.sameAs(layer, "target", target, "output", out) {
		return nil
	}
	return n.compose(what, name, func(g kernels.Graph, x []kernels.Value) kernels.Value {
		c := calc{g}
		return c.rowMean(f(c, x[0], x[1]))
	}, out, target)
}

// rows reports whether x [B, ...] has floats, and records an error if not.
func (n *Net) rows(layer string, x *gorgonia.Node) bool {
	if n.floats(layer, x) && x.Dims() == 0 {
		n.fail(fmt.Errorf("%s: %q is a scalar: it needs one row for each sample: %w", layer, x.Name(), ErrShape))
	}
	return n.err == nil
}

// sameAs reports whether y has the type and shape of x, and records an error if not.
func (n *Net) sameAs(layer, role string, y *gorgonia.Node, of string, x *gorgonia.Node) bool {
	if n.err != nil {
		return false
	}
	if err := n.checkNode(layer, role, y); err != nil {
		n.fail(err)
	} else if y.Dtype() != x.Dtype() || !slices.Equal(y.Shape(), x.Shape()) {
		n.fail(fmt.Errorf("%s: %s %q is %s %s, must be %s %s like the %s: %w", layer, role, y.Name(), typeString(y.Dtype()),
			shapeString(y.Shape()), typeString(x.Dtype()), shapeString(x.Shape()), of, ErrShape))
	}
	return n.err == nil
}

// perRowFlags reports whether y [B] has one number for each row of x, and records an error if not.
func (n *Net) perRowFlags(layer, role string, y, x *gorgonia.Node) bool {
	if n.err != nil {
		return false
	}
	if err := n.checkNode(layer, role, y); err != nil {
		n.fail(err)
	} else if want := x.Shape()[:1]; y.Dtype() != x.Dtype() || !slices.Equal(y.Shape(), want) {
		n.fail(fmt.Errorf("%s: %s %q is %s %s, must be %s %s, one number for each row: %w", layer, role, y.Name(),
			typeString(y.Dtype()), shapeString(y.Shape()), typeString(x.Dtype()), shapeString(want), ErrShape))
	}
	return n.err == nil
}

// badOption records an error about a number.
func (n *Net) badOption(what, name string, x *gorgonia.Node, option string, value float64, need string) *gorgonia.Node {
	if n.usable() {
		n.fail(fmt.Errorf("%s: %s is %v: it %s: %w", operation(what, name, x), option, value, need, kernels.ErrAttrs))
	}
	return nil
}

// rowAxes returns the axes of x other than the first.
func (c calc) rowAxes(x kernels.Value) (axes []int) {
	for i := 1; i < len(c.Spec(x).Shape); i++ {
		axes = append(axes, i)
	}
	return axes
}

// rowReduce is a reduction of each row of x: [B, ...] → [B].
func (c calc) rowReduce(op *kernels.Op, x kernels.Value) kernels.Value {
	axes := c.rowAxes(x)
	if len(axes) == 0 {
		return x
	}
	return c.Apply(op, kernels.ReduceAttrs{Axes: axes}, x)
}

func (c calc) rowMean(x kernels.Value) kernels.Value { return c.rowReduce(kernels.Mean, x) }
func (c calc) rowSum(x kernels.Value) kernels.Value  { return c.rowReduce(kernels.Sum, x) }

// flatRows is x [B, ...] as [B, N].
func (c calc) flatRows(x kernels.Value) kernels.Value {
	s := c.Spec(x).Shape
	return c.reshape(x, kernels.Shape{s[0], s[1:].Elems()})
}

// column is x [B] as [B, 1].
func (c calc) column(x kernels.Value) kernels.Value {
	return c.reshape(x, kernels.Shape{c.Spec(x).Shape[0], 1})
}

// where is a where cond is not 0, and b elsewhere.
func (c calc) where(cond, a, b kernels.Value) kernels.Value {
	return c.Apply(kernels.Where, nil, cond, a, b)
}

// indices is 0, 1, …, count-1 in x's type.
func (c calc) indices(x kernels.Value, count int) kernels.Value {
	ones := c.Apply(kernels.Fill, kernels.FillAttrs{Type: c.Spec(x).Type, Shape: kernels.Shape{count}, Value: 1})
	return c.affine(c.Apply(kernels.CumSum, kernels.CumSumAttrs{}, ones), 1, -1)
}
