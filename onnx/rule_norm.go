package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Normalizations.
var normRules = map[string][]rule{
	"BatchNormalization":    {{since: 7, apply: batchNormalization}},
	"LayerNormalization":    {{since: 17, apply: layerNormalization}},
	"RMSNormalization":      {{since: 23, apply: rmsNormalization}},
	"InstanceNormalization": {{since: 6, apply: instanceNormalization}},
	"GroupNormalization":    {{since: 18, apply: groupNormalization18}, {since: 21, apply: groupNormalization}},
}

// batchNormalization keeps the running statistics as such, so that a trainer treats the node as its
// own batch normalization: by the batch in training, unless it is frozen, by the running statistics
// elsewhere. The outputs of training are not computed: the trainer has them.
func batchNormalization(c *call) []*value {
	s, eps := c.shape(0), c.attrFloat("epsilon", 1e-5)
	if len(s) < 2 || len(c.in) != 5 {
		mismatch("%d operands, the first of %v", len(c.in), s)
	}
	channels := s[1:2]
	for i := 1; i < 5; i++ {
		if !c.shape(i).Equal(channels) {
			mismatch("operand %d is %v, must be %v", i, c.shape(i), channels)
		}
	}
	x, gamma, beta := c.float(0), c.weight(1), c.weight(2)
	mean, variance := c.must(3), c.must(4)
	stored := !c.folding && c.b.isParameter(mean, weight) && c.b.isParameter(variance, weight)
	if !stored && c.attrBool("training_mode", false) {
		return c.normalizeByBatch(x, gamma, beta, c.weight(3), c.weight(4), eps)
	}
	if !stored {
		return c.one(c.normalize(x, gamma, beta, c.weight(3), c.weight(4), eps))
	}
	a := kernels.BatchNormAttrs{Eps: eps, Momentum: 1 - c.attrFloat("momentum", 0.9)}
	spec := c.Spec(x)
	row := kernels.Spec{Type: spec.Type, Shape: append(kernels.Shape{2}, s[1:]...)} // of more than one row: the trainer checks the batch
	_, err := kernels.BatchNorm.Infer(a, []kernels.Spec{row, c.Spec(gamma), c.Spec(beta)})
	ensure(err)
	in := []kernels.Value{x, gamma, beta, c.b.statistic(mean.con.init), c.b.statistic(variance.con.init)}
	return c.one(c.add(step{op: kernels.BatchNorm, attrs: a, in: in}, spec)[0])
}

// normalize is gamma·(x - mean)/√(variance + eps) + beta, a number a channel.
func (c *call) normalize(x, gamma, beta, mean, variance kernels.Value, eps float64) kernels.Value {
	per := line(len(c.Spec(x).Shape)-1, 0, c.Spec(gamma).Shape[0])
	scale := c.two(kernels.Div, gamma, c.of(kernels.Sqrt, c.affine(variance, 1, eps)))
	centred := c.two(kernels.Sub, x, c.reshape(mean, per))
	return c.plus(c.mul(centred, c.reshape(scale, per)), c.reshape(beta, per))
}

// normalizeByBatch normalizes by the mean and variance of the batch, and returns the running ones
// as they become.
func (c *call) normalizeByBatch(x, gamma, beta, mean, variance kernels.Value, eps float64) []*value {
	a := kernels.ReduceAttrs{Axes: []int{0}}
	for i := 2; i < len(c.shape(0)); i++ {
		a.Axes = append(a.Axes, i)
	}
	kept := kernels.ReduceAttrs{Axes: a.Axes, Keep: true}
	centre, square := meanOf(c, x, a), c.of(kernels.Square, c.two(kernels.Sub, x, meanOf(c, x, kept)))
	spread := meanOf(c, square, a)
	m := c.attrFloat("momentum", 0.9)
	moved := func(running, batch kernels.Value) kernels.Value {
		return c.plus(c.affine(running, m, 0), c.affine(batch, 1-m, 0))
	}
	out := c.one(c.normalize(x, gamma, beta, centre, spread, eps))
	return append(out, c.out(moved(mean, centre), c.must(3).typ), c.out(moved(variance, spread), c.must(4).typ))
}

// layerNormalization normalizes over all axes from one on. The further outputs are the mean and
// 1/deviation.
func layerNormalization(c *call) []*value {
	s := c.shape(0)
	k := axis(c.attrInt("axis", -1), len(s))
	n := s[k:].Elems()
	flat := kernels.Shape{n}
	x := c.reshape(c.float(0), kernels.Shape{s[:k].Elems(), n})
	gamma := c.reshape(c.expand(c.weight(1), s[k:]), flat)
	var beta kernels.Value
	if c.arg(2) != nil {
		beta = c.reshape(c.expand(c.weight(2), s[k:]), flat)
	} else {
		beta = c.expand(c.scalar(x, 0), flat)
	}
	y := c.ApplyAll(kernels.LayerNorm, kernels.LayerNormAttrs{Eps: c.attrFloat("epsilon", 1e-5)}, x, gamma, beta)
	rows := append(slices.Clone(s[:k]), slices.Repeat(kernels.Shape{1}, len(s)-k)...)
	typ := c.must(0).typ
	return []*value{c.out(c.reshape(y[0], s), typ), c.out(c.reshape(y[1], rows), typ), c.out(c.reshape(y[2], rows), typ)}
}

// rmsNormalization divides by the root of the mean of squares.
func rmsNormalization(c *call) []*value {
	s := c.shape(0)
	a := kernels.ReduceAttrs{Keep: true}
	for i := axis(c.attrInt("axis", -1), len(s)); i < len(s); i++ {
		a.Axes = append(a.Axes, i)
	}
	x := c.float(0)
	square := meanOf(c, c.of(kernels.Square, x), a)
	y := c.mul(x, c.of(kernels.InverseSqrt, c.affine(square, 1, c.attrFloat("epsilon", 1e-5))))
	return c.one(c.mul(y, c.weight(1)))
}

func instanceNormalization(c *call) []*value {
	s := c.shape(0)
	if len(s) < 3 {
		mismatch("%v has no pixels", s)
	}
	return c.groupNorm(s[1], c.weight(1), c.weight(2))
}

// groupNormalization18 has a scale and a bias for each group.
func groupNormalization18(c *call) []*value {
	g := c.attrInt("num_groups", 0)
	s := c.shape(0)
	if len(s) < 2 || g < 1 || s[1]%g != 0 {
		badAttribute("%d groups of %v", g, s)
	}
	channels := func(i int) kernels.Value {
		v := c.reshape(c.weight(i), kernels.Shape{g, 1})
		return c.reshape(c.expand(v, kernels.Shape{g, s[1] / g}), s[1:2])
	}
	return c.groupNorm(g, channels(1), channels(2))
}

func groupNormalization(c *call) []*value {
	return c.groupNorm(c.attrInt("num_groups", 0), c.weight(1), c.weight(2))
}

func (c *call) groupNorm(groups int, gamma, beta kernels.Value) []*value {
	a := kernels.GroupNormAttrs{Groups: groups, Eps: c.attrFloat("epsilon", 1e-5)}
	return c.one(c.ApplyAll(kernels.GroupNorm, a, c.float(0), gamma, beta)[0])
}
