package compile

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Synchronised batch normalization normalizes by the statistics of the samples of all ranks, as one
// rank with all of them would. A step has one sum over the ranks for each normalization in the
// forward pass, and one in the backward pass if the gradient goes on to x:
//
//	forward   n·(m - k), n·(v + (m - k)²), n ─sum─► mean, variance ─► y = γ/√(variance + ε)·(x - mean) + β
//	backward  Σ dy, Σ dy·x̂                  ─sum─► dx = γ/√(variance + ε)·(dy - Σ dy/N - x̂·Σ dy·x̂/N)
//
// n, m and v are the elements of a channel on this rank, their mean and their variance, N is the sum
// of all n, and k the running mean, which all ranks have: without it, squares of a large mean would
// cancel. Sums are float64. A rank without samples adds zeros.
//
// Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983, for shifted
// data; Ioffe and Szegedy, ICML 2015, for the gradient.
type syncNorm struct {
	begin          int // index of the first instruction of the forward pass
	eps            float64
	label          string
	x, gamma, beta kernels.Value
	mean, variance kernels.Value // of all ranks, [C]
	elements       kernels.Value // N, float64 [1]
	y              kernels.Value
	number         int
}

// syncsNorms reports whether batch normalization uses the statistics of all ranks.
func (c *compiler) syncsNorms() bool { return c.sharesStep() && c.cfg.Update.SyncNorms }

// normalize appends the forward pass of a normalization over the samples of all ranks. It returns y,
// the mean and the biased variance of the batch, and the unbiased one.
func (c *compiler) normalize(a kernels.BatchNormAttrs, x, gamma, beta, running kernels.Value) (y, mean, variance, unbiased kernels.Value) {
	n := &syncNorm{eps: a.Eps, label: c.Label, x: x, gamma: gamma, beta: beta, number: len(c.norms), begin: len(c.Instrs)}
	sums := c.sumShared(fmt.Sprintf("statistics %d of %s", n.number, n.label), c.ownMoments(x, running))

	channels := c.Spec(x).Shape[1]
	n.elements = c.part(sums, 2*channels, 2*channels+1)
	share := func(k int) kernels.Value {
		return c.Apply(kernels.Div, nil, c.part(sums, k*channels, (k+1)*channels), n.elements)
	}
	shift := share(0)
	t := c.Spec(x).Type
	mean = c.decode(t, c.Apply(kernels.Add, nil, c.decode(arena.Float64, running), shift))
	biased := c.Apply(kernels.Sub, nil, share(1), c.Apply(kernels.Mul, nil, shift, shift))
	biased = c.Apply(kernels.ReLU, nil, biased) // rounding may leave it below 0
	variance = c.decode(t, biased)
	rest := c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 1, Shift: -1}, n.elements)
	unbiased = c.decode(t, c.Apply(kernels.Mul, nil, biased, c.Apply(kernels.Div, nil, n.elements, rest)))
	n.mean, n.variance = mean, variance

	y = c.Apply(kernels.Mul, nil, c.centred(n), c.perChannel(x, c.normScale(n)))
	y = c.Apply(kernels.Add, nil, y, c.perChannel(x, beta))
	n.y = y
	if a.ReLU {
		y = c.Apply(kernels.ReLU, nil, y)
	}
	c.norms = append(c.norms, n)
	return y, mean, variance, unbiased
}

// ownMoments appends what this rank adds to the statistics: float64 [2·C + 1].
func (c *compiler) ownMoments(x, running kernels.Value) kernels.Value {
	shape := c.Spec(x).Shape
	channels := shape[1]
	if c.cfg.Idle {
		return c.zero(kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{2*channels + 1}})
	}
	over := kernels.ReduceAttrs{Axes: besides(1, len(shape))}
	mean := c.Apply(kernels.Mean, over, x)
	off := c.Apply(kernels.Sub, nil, x, c.perChannel(x, mean))
	variance := c.Apply(kernels.Mean, over, c.Apply(kernels.Mul, nil, off, off))

	elements := float64(shape.Elems() / channels)
	shift := c.Apply(kernels.Sub, nil, c.decode(arena.Float64, mean), c.decode(arena.Float64, running))
	square := c.Apply(kernels.Add, nil, c.decode(arena.Float64, variance), c.Apply(kernels.Mul, nil, shift, shift))
	times := kernels.AffineAttrs{Scale: elements}
	return c.Apply(kernels.Concat, kernels.ConcatAttrs{}, c.Apply(kernels.Affine, times, shift), c.Apply(kernels.Affine, times, square),
		c.Apply(kernels.Fill, kernels.FillAttrs{Type: arena.Float64, Shape: kernels.Shape{1}, Value: elements}))
}

// normGrad appends the gradient of a normalization and returns dx, dgamma and dbeta. The last two are
// this rank's own: they are summed with all gradients. dx is None unless wanted.
func (c *compiler) normGrad(n *syncNorm, dy kernels.Value, wanted bool) []kernels.Value {
	shape := c.Spec(n.x).Shape
	over := kernels.ReduceAttrs{Axes: besides(1, len(shape))}
	t, channels := c.Spec(n.x).Type, shape[1]
	normal := func() kernels.Value { // x̂, made once for each reader
		return c.Apply(kernels.Mul, nil, c.centred(n), c.perChannel(n.x, c.Apply(kernels.Inverse, nil, c.deviation(n))))
	}
	dbeta := c.Apply(kernels.Sum, over, dy)
	dgamma := c.Apply(kernels.Sum, over, c.Apply(kernels.Mul, nil, dy, normal()))
	if !wanted {
		return []kernels.Value{kernels.None, dgamma, dbeta}
	}
	own := c.zero(kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{2 * channels}})
	if !c.cfg.Idle {
		own = c.Apply(kernels.Concat, kernels.ConcatAttrs{}, c.decode(arena.Float64, dbeta), c.decode(arena.Float64, dgamma))
	}
	sums := c.sumShared(fmt.Sprintf("gradients of statistics %d of %s", n.number, n.label), own)
	means := c.decode(t, c.Apply(kernels.Div, nil, sums, n.elements))
	dx := c.Apply(kernels.Sub, nil, dy, c.perChannel(n.x, c.part(means, 0, channels)))
	dx = c.Apply(kernels.Sub, nil, dx, c.Apply(kernels.Mul, nil, normal(), c.perChannel(n.x, c.part(means, channels, 2*channels))))
	dx = c.Apply(kernels.Mul, nil, dx, c.perChannel(n.x, c.normScale(n)))
	return []kernels.Value{dx, dgamma, dbeta}
}

// normOf returns the normalization whose result in makes, nil for other instructions.
func (c *compiler) normOf(in ir.Instr) *syncNorm {
	for _, n := range c.norms {
		if n.y == in.Out[0] {
			return n
		}
	}
	return nil
}

// sumShared returns the sum over the ranks of a vector, which each step computes whoever reads it: all
// ranks run the same sums.
func (c *compiler) sumShared(label string, v kernels.Value) kernels.Value {
	begin, owner, mark := c.Label, c.Owner, c.Mark
	sums := c.sum(c.label(label), []kernels.Value{v})
	c.Label, c.Owner, c.Mark = begin, owner, mark
	c.Needed = append(c.Needed, sums[0])
	return sums[0]
}

// besides returns the axes of a shape but one.
func besides(axis, axes int) (others []int) {
	for a := range axes {
		if a != axis {
			others = append(others, a)
		}
	}
	return others
}

// perChannel returns v [C] in a shape that broadcasts to x [B, C, ...].
func (c *compiler) perChannel(x, v kernels.Value) kernels.Value {
	per := slices.Repeat(kernels.Shape{1}, len(c.Spec(x).Shape)-1)
	per[0] = c.Spec(v).Shape[0]
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: per}, v)
}

// centred returns x - mean.
func (c *compiler) centred(n *syncNorm) kernels.Value {
	return c.Apply(kernels.Sub, nil, n.x, c.perChannel(n.x, n.mean))
}

// deviation returns √(variance + ε).
func (c *compiler) deviation(n *syncNorm) kernels.Value {
	return c.Apply(kernels.Sqrt, nil, c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 1, Shift: n.eps}, n.variance))
}

// normScale returns γ/√(variance + ε).
func (c *compiler) normScale(n *syncNorm) kernels.Value {
	return c.Apply(kernels.Div, nil, n.gamma, c.deviation(n))
}
