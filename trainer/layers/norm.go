package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// epsilon is added to a variance, and statisticMomentum is the weight of a batch in the running
// statistics. Both are the values of PyTorch's layers.
const (
	epsilon           = 1e-5
	statisticMomentum = 0.1
)

// LayerNorm adds gamma·(x − mean)/√(variance + 1e-5) + beta, with mean and variance over the last
// axis.  x [..., N] → same. The parameters are name/gamma [N], which starts at 1, and name/beta
// [N], which starts at 0.
// Source: Ba, Kiros and Hinton, 2016.
func (n *Net) LayerNorm(x *gorgonia.Node, name string) *gorgonia.Node {
	layer := fmt.Sprintf("layer norm %q", name)
	if !n.layer(layer, name, x) {
		return nil
	}
	if x.Dims() < 2 {
		n.fail(fmt.Errorf("%s: input %s needs 2 dimensions or more, [batch, ..., features]: %w", layer, shapeString(x.Shape()), ErrShape))
		return nil
	}
	gamma, beta := n.scale(name, x.Shape()[x.Dims()-1])
	return n.apply(layer, name+"/out", kernels.LayerNorm, kernels.LayerNormAttrs{Eps: epsilon}, x, gamma, beta)
}

// GroupNorm normalizes each sample over groups of channels, as LayerNorm does, with one gamma and
// beta for each channel.
// x [B, C, ...] → same. groups must divide C: with 1 group the whole sample is normalized, with C
// groups each channel. The parameters are name/gamma [C], which starts at 1, and name/beta [C],
// which starts at 0.
// Source: Wu and He, 2018.
func (n *Net) GroupNorm(x *gorgonia.Node, name string, groups int) *gorgonia.Node {
	layer := fmt.Sprintf("group norm %q", name)
	if !n.channels(layer, name, x) {
		return nil
	}
	if c := x.Shape()[1]; groups < 1 || c%groups != 0 {
		n.fail(fmt.Errorf("%s: %d groups do not divide %d channels of input %s: %w", layer, groups, c, shapeString(x.Shape()), ErrShape))
		return nil
	}
	gamma, beta := n.scale(name, x.Shape()[1])
	return n.apply(layer, name+"/out", kernels.GroupNorm, kernels.GroupNormAttrs{Groups: groups, Eps: epsilon}, x, gamma, beta)
}

// BatchNorm adds act(gamma·(x − mean)/√(variance + 1e-5) + beta), with mean and variance over each
// channel.
// x [B, C, ...] → same. act may be nil.
//
// Training uses the statistics of the batch, and moves the running statistics a tenth of the way
// towards them after each update. Evaluation and prediction use the running statistics.
//
// The parameters are name/gamma [C], which starts at 1, and name/beta [C], which starts at 0; the
// running statistics are name/mean [C], which starts at 0, and name/variance [C], which starts at
// 1. Source: Ioffe and Szegedy, 2015.
func (n *Net) BatchNorm(x *gorgonia.Node, name string, act Activation) *gorgonia.Node {
	layer := fmt.Sprintf("batch norm %q", name)
	if !n.channels(layer, name, x) {
		return nil
	}
	c := x.Shape()[1]
	gamma, beta := n.scale(name, c)
	mean, variance := n.Statistic(name+"/mean", Zeros{}, c), n.Statistic(name+"/variance", Ones{}, c)
	if n.err != nil {
		return nil
	}
	attrs := kernels.BatchNormAttrs{Eps: epsilon, Momentum: statisticMomentum}
	op := &batchNorm{kernel: n.kernel(kernels.BatchNorm, attrs, 0, x.Dims(), x.Dtype(), x, gamma, beta, mean, variance)}
	y, err := gorgonia.ApplyOp(op, x, gamma, beta, mean, variance)
	return n.activated(n.keep(layer, name+"/out", y, err), name, act)
}

// channels reports whether x [B, C, ...] can be the input of a layer called name, and records an
// error if not.
func (n *Net) channels(layer, name string, x *gorgonia.Node) bool {
	if n.layer(layer, name, x) && x.Dims() < 2 {
		n.fail(fmt.Errorf("%s: input %s needs 2 dimensions or more, [batch, channels, ...]: %w", layer, shapeString(x.Shape()), ErrShape))
	}
	return n.err == nil
}

// scale adds the parameters of a normalizing layer.
func (n *Net) scale(name string, size int) (gamma, beta *gorgonia.Node) {
	return n.Param(name+"/gamma", Ones{}, size), n.Param(name+"/beta", Zeros{}, size)
}
