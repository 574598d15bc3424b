package compile

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// ErrRows is wrapped by errors about batches that are too small to train with: batch normalization divides by the variance of the batch.
// A batch of 1 is too small whatever its planes are: of a vector there is no variance, of one image there is that of its own pixels,
// which evaluation, by statistics of many, does not see.
var ErrRows = errors.New("too few samples for batch normalization")

// running is where a batch normalization keeps its running mean and variance.
type running struct {
	fixed          bool // they are what it normalizes by, and stay as they are
	mean, variance kernels.Value
	host           *follower // of a machine that trains: what moves them, in place of homes
}

// moved is a running statistic and what a step moves it by.
type moved struct {
	at, batch kernels.Value
	attrs     kernels.RunningStatAttrs
}

// frozen reports whether the parameter, or statistic, of that name stays as it is.
func (c *compiler) frozen(name string) bool { return c.Frozen != nil && c.Frozen(name) }

// batchNorm normalizes x by the mean and variance of the batch, and notes that the running ones follow; or, after training and where the
// layer is frozen, by the running ones.
func (r *reader) batchNorm(n *gorgonia.Node, a kernels.BatchNormAttrs, x, gamma, beta kernels.Value, s running) (kernels.Value, error) {
	if s.fixed {
		return r.normalize(n, a, x, gamma, beta, s)
	}
	shape := r.Spec(x).Shape
	if r.Mode == Train && len(shape) > 1 && shape[0] == 1 {
		return kernels.None, fmt.Errorf("%q over a batch of 1, %v: take a larger batch, group or layer normalization, or freeze the layer: %w: %w", n.Name(), shape, ErrRows, kernels.ErrShape)
	}
	out := r.ApplyAll(kernels.BatchNorm, a, x, gamma, beta)
	count := float64(shape.Elems() / shape[1])
	unbiased := count / (count - 1)
	if s.host != nil {
		s.host.momentum, s.host.factor = a.Momentum, unbiased
		r.Roots = append(r.Roots, r.Apply(kernels.Host, s.host, out[1], out[2]))
		return out[0], nil
	}
	r.moving = append(r.moving,
		moved{s.mean, out[1], kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: 1}},
		moved{s.variance, out[2], kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: unbiased}})
	return out[0], nil
}

// normalize computes y = x·scale + shift by the running statistics. A convolution that only n reads scales its weights instead of its
// result.
func (r *reader) normalize(n *gorgonia.Node, a kernels.BatchNormAttrs, x, gamma, beta kernels.Value, s running) (kernels.Value, error) {
	if shape := r.Spec(x).Shape; len(shape) < 2 || !r.Spec(s.mean).Shape.Equal(shape[1:2]) || !r.Spec(s.variance).Shape.Equal(shape[1:2]) {
		return kernels.None, fmt.Errorf("statistics %v and %v of %v: %w", r.Spec(s.mean), r.Spec(s.variance), r.Spec(x), kernels.ErrShape)
	}
	root := r.Apply(kernels.Sqrt, nil, r.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 1, Shift: a.Eps}, s.variance))
	scale := r.Apply(kernels.Div, nil, gamma, root)
	shift := r.Apply(kernels.Sub, nil, beta, r.Apply(kernels.Mul, nil, s.mean, scale))
	y, ok := r.scaleConv(n, x, scale, shift)
	if !ok {
		channel := func(v kernels.Value) kernels.Value {
			shape := make(kernels.Shape, len(r.Spec(x).Shape)-1)
			for i := range shape {
				shape[i] = 1
			}
			shape[0] = r.Spec(v).Shape[0]
			return r.reshape(v, shape)
		}
		y = r.Apply(kernels.Add, nil, r.Apply(kernels.Mul, nil, x, channel(scale)), channel(shift))
	}
	if a.Relu {
		y = r.Apply(kernels.Relu, nil, y)
	}
	return y, nil
}

// scaleConv returns x·scale + shift, by channel, as a convolution with other weights and another bias, where x is the result of a
// convolution that only n reads: normalizing after training then costs nothing.
func (r *reader) scaleConv(n *gorgonia.Node, x, scale, shift kernels.Value) (kernels.Value, bool) {
	conv := r.Maker(x)
	if r.training() || conv == nil || conv.Op != kernels.Conv || r.readsOf(children(n)[0]) != 1 {
		return kernels.None, false
	}
	a := conv.Attrs.(kernels.ConvAttrs)
	if a.Act != nil {
		return kernels.None, false
	}
	in := conv.In
	if a.Bias {
		shift = r.Apply(kernels.Add, nil, shift, r.Apply(kernels.Mul, nil, in[2], scale))
	}
	a.Bias = true
	w := r.Apply(kernels.Mul, nil, in[1], r.reshape(scale, kernels.Shape{r.Spec(scale).Shape[0], 1, 1, 1}))
	return r.Apply(kernels.Conv, a, in[0], w, shift), true
}

// readsOf returns how many nodes and results read the elements of n; its sizes are known.
func (r *reader) readsOf(n *gorgonia.Node) int {
	if r.readers == nil {
		r.readers = make(map[*gorgonia.Node]int)
		for _, m := range n.Graph().AllNodes() {
			if is(m, "gorgonia.sizeOp") {
				continue
			}
			for _, child := range children(m) {
				r.readers[child]++
			}
		}
		for _, m := range append(gorgonia.Nodes{r.Loss, r.Output, r.Correct}, r.Keep...) {
			r.readers[m]++
		}
	}
	return r.readers[n]
}

// moveStatistics appends the update of the running statistics, which happens unless the step is stopped.
func (c *compiler) moveStatistics(guard kernels.Value) {
	now := make(map[kernels.Value]kernels.Value) // by home: what lies there after the updates so far
	for _, m := range c.moving {
		at := m.at
		if v, ok := now[m.at]; ok {
			at = v
		}
		name := c.Values[m.at].Name
		c.Label, c.Owner, c.Mark = "update "+name, ir.OwnerOf(name), ""
		now[m.at] = c.Apply(kernels.RunningStat, m.attrs, at, m.batch, guard)
		c.Roots = append(c.Roots, now[m.at])
	}
}

// statistic returns the home of a running statistic that is an input of the graph.
func (c *compiler) statistic(n *gorgonia.Node, spec kernels.Spec) (kernels.Value, error) {
	v, err := c.Home(ir.Statistics, ir.OwnerOf(n.Name()), n.Name(), spec)
	if err != nil {
		return kernels.None, fmt.Errorf("running statistic %w", err)
	}
	return v, nil
}

// statisticsOp is Gorgonia's batch normalization.
type statisticsOp interface {
	Stats() (mean, variance tensor.Tensor)
	Reset() error
}

// lowerBatchNorm reads Gorgonia's batch normalization, which has neither scale nor shift. Its running statistics get homes named after
// its node.
func lowerBatchNorm(r *reader, n *gorgonia.Node) (*rule, error) {
	a, training, err := batchNormOf(n)
	if err != nil {
		return nil, err
	}
	op, ok := n.Op().(statisticsOp)
	if !ok {
		return nil, fmt.Errorf("%T has no Stats: %w", n.Op(), errVersion)
	}
	fixed := !training || !r.training() || r.frozen(n.Name())
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		gamma, beta := r.channels(v[0], 1), r.channels(v[0], 0)
		if len(v) == 3 { // see affineNorm
			gamma, beta = r.reshape(v[1], r.Spec(gamma).Shape), r.reshape(v[2], r.Spec(beta).Shape)
		}
		s, err := r.opStatistics(n, op, r.Spec(gamma), fixed)
		if err != nil {
			return kernels.None, err
		}
		return r.batchNorm(n, a, v[0], gamma, beta, s)
	}}, nil
}

// affineNorm recognises batch normalization with a scale and a shift for each channel, where nobody reads what is between:
// gorgonia.BatchNorm builds it of γ and β of the shape [1, C, 1, 1].
func (r *reader) affineNorm(a, b *gorgonia.Node) *rule {
	if !is(a, opMul) || r.readsOf(a) != 1 {
		return nil
	}
	in := children(a)
	norm, gamma, beta := in[1], spread(in[0]), spread(b)
	if !is(norm, "*gorgonia.BatchNormOp") || r.readsOf(norm) != 1 || !perChannel(gamma.shape, norm) || !perChannel(beta.shape, norm) {
		return nil
	}
	found, err := lowerBatchNorm(r, norm)
	if err != nil {
		return nil // the error is that of norm itself, when it is read
	}
	found.in = gorgonia.Nodes{children(norm)[0], gamma.node, beta.node}
	return found
}

// perChannel reports whether a value of that shape has an element for each channel of n [B, C, ...], and no more.
func perChannel(shape kernels.Shape, n *gorgonia.Node) bool {
	all := shapeOf(n)
	return len(shape) == len(all) && len(all) > 1 && shape[1] == all[1] && shape.Elems() == all[1]
}

// batchNormOf returns the attributes of batch normalization, or of its gradient, and whether its op has been set to train.
func batchNormOf(n *gorgonia.Node) (a kernels.BatchNormAttrs, training bool, err error) {
	f := fields{n.Op()}
	if a.Eps, err = f.Float("epsilon"); err != nil {
		return a, false, err
	}
	if a.Momentum, err = f.Float("momentum"); err != nil {
		return a, false, err
	}
	training, err = f.Bool("training")
	return a, training, err
}

// opStatistics returns where the running statistics of one of Gorgonia's ops lie: at homes of their own, or, for a machine, in the op.
// They start as the op has them, which is 0 and 1 where they were never set.
func (r *reader) opStatistics(n *gorgonia.Node, op statisticsOp, spec kernels.Spec, fixed bool) (s running, err error) {
	mean, variance := op.Stats()
	if empty, err := unset(variance, spec); err != nil {
		return s, err
	} else if empty {
		if err := op.Reset(); err != nil {
			return s, err
		}
	}
	if r.Mode == Machine {
		value := func(t tensor.Tensor) func() gorgonia.Value {
			return func() gorgonia.Value { return t.(gorgonia.Value) }
		}
		return r.hostStatistics(n, spec, fixed, value(mean), value(variance)), nil
	}
	s.fixed = fixed
	if s.mean, err = r.startStatistic(n, "mean", spec, mean); err != nil {
		return s, err
	}
	s.variance, err = r.startStatistic(n, "variance", spec, variance)
	return s, err
}

// startStatistic returns the home of a running statistic that starts as a tensor is now.
func (r *reader) startStatistic(n *gorgonia.Node, name string, spec kernels.Spec, start tensor.Tensor) (kernels.Value, error) {
	v, err := r.Home(ir.Statistics, n.Name(), n.Name()+"/"+name, spec)
	if err != nil {
		return kernels.None, fmt.Errorf("running statistic %w", err)
	}
	data := make([]byte, spec.Bytes())
	if err := store(data, spec.Type, start.(gorgonia.Value)); err != nil {
		return kernels.None, err
	}
	r.Constants = append(r.Constants, ir.Constant{Value: v, Data: data})
	return v, nil
}

// unset reports whether a variance is 0 everywhere: nobody has set it.
func unset(variance tensor.Tensor, spec kernels.Spec) (bool, error) {
	data := make([]byte, spec.Bytes())
	if err := store(data, spec.Type, variance.(gorgonia.Value)); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(data, func(b byte) bool { return b != 0 }), nil
}
