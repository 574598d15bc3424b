package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// epsilon is what normalizing layers add to a variance, and statisticMomentum the weight of a batch in the running statistics:
// the values of PyTorch's layers.
const (
	epsilon           = 1e-5
	statisticMomentum = 0.1
)

// LayerNorm adds gamma·(x − mean)/√(variance + 1e-5) + beta over the last axis.  x [..., N] → same.
// Source: Ba, Kiros and Hinton, 2016. It makes parameters name/gamma [N], ones, and name/beta [N], zeros.
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

// GroupNorm adds the normalization of LayerNorm over groups of channels of each sample, then gamma and beta of each channel.
// x [B, C, ...] → same. groups must divide C: 1 normalizes a sample, C each channel of it.
// Source: Wu and He, 2018. It makes parameters name/gamma [C], ones, and name/beta [C], zeros.
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

// BatchNorm adds act(gamma·(x − mean)/√(variance + 1e-5) + beta), with mean and variance of each channel.  x [B, C, ...] → same.
// Training takes them from the batch, and moves the running statistics a tenth of the way to them after each update; evaluation
// and prediction take the running ones. act may be nil.
// Source: Ioffe and Szegedy, 2015. It makes parameters name/gamma [C], ones, and name/beta [C], zeros, and the statistics name/mean [C],
// zeros, and name/variance [C], ones.
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
	op := &batchNorm{kernel: n.kernel(kernels.BatchNorm, attrs, x.Dims(), x, gamma, beta, mean, variance)}
	y, err := gorgonia.ApplyOp(op, x, gamma, beta, mean, variance)
	return n.activated(n.keep(layer, name+"/out", y, err), name, act)
}

// channels reports whether a layer called name can be built on x [B, C, ...], and keeps an error where not.
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
