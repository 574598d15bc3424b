package frontend

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Batch normalization.
//
//	BatchNormOp x          →  batchNorm with scale 1 and shift 0
//	γ ⊙ BatchNormOp x + β  →  batchNorm
//	outside training       →  sub, mul and add, by the running statistics

// ErrRows is wrapped by errors about batches that are too small to train with: batch normalization
// divides by the variance of the batch. A batch of 1 has no usable variance: a vector has none, and
// one image has only the variance of its own pixels, while evaluation uses the statistics of many
// images.
var ErrRows = errors.New("too few samples for batch normalization")

// runningStats are the running mean and variance of a batch normalization.
type runningStats struct {
	fixed          bool // it normalizes by them, and does not update them
	mean, variance kernels.Value
	// host is the attribute of the instruction that updates them in a machine that trains. They
	// have no homes then.
	host *updateRunningStat
}

// batchNorm normalizes x by the mean and variance of the batch, and records the update of the
// running ones; outside training, and where the layer is frozen, it normalizes by the running ones.
func (r *reader) batchNorm(n *gorgonia.Node, a kernels.BatchNormAttrs, x, gamma, beta kernels.Value,
	s runningStats) (kernels.Value, error) {
	if s.fixed {
		return r.normalizeByRunning(a, x, gamma, beta, s)
	}
	shape := r.Spec(x).Shape
	if r.Normalize != nil {
		return r.batchNormOfRanks(a, x, gamma, beta, s)
	}
	if r.Training && !r.Machine && len(shape) > 1 && shape[0] == 1 {
		return kernels.None, fmt.Errorf("%q over a batch of 1, %v: use a larger batch, group or layer normalization, "+
			"or freeze the layer: %w: %w", n.Name(), shape, ErrRows, kernels.ErrShape)
	}
	out := r.ApplyAll(kernels.BatchNorm, a, x, gamma, beta)
	// The running variance is unbiased, the batch's variance is not: n values make a factor
	// n/(n-1).
	count := float64(shape.Elems() / shape[1])
	unbiased := count / (count - 1)
	if s.host != nil {
		s.host.mean.attrs = kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: 1}
		s.host.variance.attrs = kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: unbiased}
		if len(r.Only) > 0 {
			return out[0], nil
		}
		r.Needed = append(r.Needed, r.Apply(kernels.Host, s.host, out[1], out[2]))
		return out[0], nil
	}
	r.statistics = append(r.statistics,
		StatisticUpdate{s.mean, out[1], out[1], kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: 1}, false},
		StatisticUpdate{s.variance, out[2], out[2], kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: unbiased}, true})
	return out[0], nil
}

// batchNormOfRanks normalizes x by the mean and variance of the samples of all ranks.
func (r *reader) batchNormOfRanks(a kernels.BatchNormAttrs, x, gamma, beta kernels.Value, s runningStats) (kernels.Value, error) {
	specs := r.Specs([]kernels.Value{x, gamma, beta})
	if shape := specs[0].Shape; len(shape) > 1 && shape.Elems() == shape[1] { // one element for each channel here, others elsewhere
		specs[0].Shape = kernels.Shape{2, shape[1]}
	}
	if _, err := kernels.BatchNorm.Infer(a, specs); err != nil {
		return kernels.None, err
	}
	y, mean, variance, unbiased := r.Normalize(a, x, gamma, beta, s.mean)
	attrs := kernels.RunningStatAttrs{Momentum: a.Momentum, Factor: 1}
	r.statistics = append(r.statistics, StatisticUpdate{s.mean, mean, mean, attrs, false},
		StatisticUpdate{s.variance, variance, unbiased, attrs, true})
	return y, nil
}

// normalizeByRunning computes y = (x - mean)·scale + β by the running statistics: not x·scale +
// shift, whose terms cancel where x is far from 0. So y is β exactly where x is the mean. For the
// same reason scale and shift do not become part of the weights of a convolution before it: the
// three operations become its epilogue.
func (r *reader) normalizeByRunning(a kernels.BatchNormAttrs, x, gamma, beta kernels.Value,
	s runningStats) (kernels.Value, error) {
	shape, mean, variance := r.Spec(x).Shape, r.Spec(s.mean), r.Spec(s.variance)
	if len(shape) < 2 || !mean.Shape.Equal(shape[1:2]) || !variance.Shape.Equal(shape[1:2]) {
		return kernels.None, fmt.Errorf("running mean %v and variance %v do not fit %v: %w", mean, variance, r.Spec(x), kernels.ErrShape)
	}
	// No BatchNorm is appended: Infer is called only to check ε.
	channels := r.Spec(gamma)
	if _, err := kernels.BatchNorm.Infer(a, []kernels.Spec{{Type: channels.Type, Shape: kernels.Shape{2, shape[1]}}, channels, channels}); err != nil {
		return kernels.None, err
	}
	// scale = γ / √(variance + ε)
	deviation := r.Apply(kernels.Sqrt, nil, r.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 1, Shift: a.Eps}, s.variance))
	scale := r.Apply(kernels.Div, nil, gamma, deviation)
	channel := func(v kernels.Value) kernels.Value { // [C] as [C, 1, ...], which broadcasts to x
		per := slices.Repeat(kernels.Shape{1}, len(shape)-1)
		per[0] = r.Spec(v).Shape[0]
		return r.reshape(v, per)
	}
	centred := r.Apply(kernels.Sub, nil, x, channel(s.mean))
	y := r.Apply(kernels.Add, nil, r.Apply(kernels.Mul, nil, centred, channel(scale)), channel(beta))
	if a.ReLU {
		y = r.Apply(kernels.ReLU, nil, y)
	}
	return y, nil
}

// useCount returns the number of nodes and results that read the elements of n. Reads of its sizes
// do not count: they are constants.
func (r *reader) useCount(n *gorgonia.Node) int {
	if r.uses == nil {
		r.uses = make(map[*gorgonia.Node]int)
		for _, m := range n.Graph().AllNodes() {
			if isOp(m, "gorgonia.sizeOp") {
				continue
			}
			for _, child := range children(m) {
				r.uses[child]++
			}
		}
		for _, m := range slices.Concat(gorgonia.Nodes{r.Loss, r.Output, r.Correct}, r.Outputs, r.Keep) {
			r.uses[m]++
		}
		for _, m := range r.Metrics {
			r.uses[m.Sum]++
		}
	}
	return r.uses[n]
}

// statistic returns the home of a running statistic that is a node of the graph.
func (g *Graph) statistic(n *gorgonia.Node, spec kernels.Spec) (kernels.Value, error) {
	v, err := g.Home(ir.Statistics, ir.OwnerOf(n.Name()), n.Name(), spec)
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

// lowerBatchNorm lowers Gorgonia's batch normalization, which has neither scale nor shift: they
// become constants 1 and 0. The homes of its running statistics are named after its node.
func lowerBatchNorm(r *reader, n *gorgonia.Node) (*rule, error) {
	a, training, err := batchNormOf(n)
	if err != nil {
		return nil, err
	}
	op, ok := n.Op().(statisticsOp)
	if !ok {
		return nil, fmt.Errorf("%T has no Stats: %w", n.Op(), errVersion)
	}
	fixed := !training && !r.Machine || !r.Training || r.frozen(n.Name()) // a machine sets the mode itself
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		gamma, beta := r.channelConst(v[0], 1), r.channelConst(v[0], 0)
		if len(v) == 3 { // matchAffineBatchNorm has added γ and β
			gamma, beta = r.reshape(v[1], r.Spec(gamma).Shape), r.reshape(v[2], r.Spec(beta).Shape)
		}
		s, err := r.opStatistics(n, op, r.Spec(gamma), fixed)
		if err != nil {
			return kernels.None, err
		}
		return r.batchNorm(n, a, v[0], gamma, beta, s)
	}}, nil
}

// matchAffineBatchNorm recognises batch normalization with a scale and a shift for each channel, γ
// ⊙ norm(x) + β, where no other node reads the values between. gorgonia.BatchNorm builds it with γ
// and β of shape [1, C, 1, 1].
func (r *reader) matchAffineBatchNorm(a, b *gorgonia.Node) *rule {
	if !isOp(a, opMul) || r.useCount(a) != 1 {
		return nil
	}
	// a = γ ⊙ norm(x), b = β, both repeated to the shape of x.
	in := children(a)
	norm, gamma, beta := in[1], unrepeat(in[0]), unrepeat(b)
	if !isOp(norm, "*gorgonia.BatchNormOp") || r.useCount(norm) != 1 ||
		!perChannel(gamma.shape, norm) || !perChannel(beta.shape, norm) {
		return nil
	}
	found, err := lowerBatchNorm(r, norm)
	if err != nil {
		return nil // norm has the same error when it is lowered itself
	}
	found.in = gorgonia.Nodes{children(norm)[0], gamma.node, beta.node}
	return found
}

// perChannel reports whether a value of that shape has one element for each channel of n,
// [B, C, ...].
func perChannel(shape kernels.Shape, n *gorgonia.Node) bool {
	all := shapeOf(n)
	return len(shape) == len(all) && len(all) > 1 && shape[1] == all[1] && shape.Elems() == all[1]
}

// batchNormOf returns the attributes of batch normalization, or of its gradient, and whether its op
// is set to train.
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

// opStatistics returns the running statistics of one of Gorgonia's ops: values with homes, or, for
// a machine, in the op itself. Their initial values are those of the op: mean 0 and variance 1
// where they were never set.
func (r *reader) opStatistics(n *gorgonia.Node, op statisticsOp, spec kernels.Spec,
	fixed bool) (s runningStats, err error) {
	// A variance of 0 would divide by 0. Reset writes the initial statistics into the op's tensors.
	mean, variance := op.Stats()
	if empty, err := allZero(variance, spec); err != nil {
		return s, err
	} else if empty {
		if err := op.Reset(); err != nil {
			return s, err
		}
	}
	if r.Machine {
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

// startStatistic returns the home of a running statistic with the elements of a tensor as its
// initial value.
func (r *reader) startStatistic(n *gorgonia.Node, name string, spec kernels.Spec,
	start tensor.Tensor) (kernels.Value, error) {
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

// allZero reports whether all elements of a variance are 0, as before it is first set.
func allZero(variance tensor.Tensor, spec kernels.Spec) (bool, error) {
	data := make([]byte, spec.Bytes())
	if err := store(data, spec.Type, variance.(gorgonia.Value)); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(data, func(b byte) bool { return b != 0 }), nil
}
