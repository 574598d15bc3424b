package layers

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Normalize adds x/|x|, |x| the Euclidean norm along the last axis. Squares do not overflow. Zeros
// stay zeros, with a gradient of 0; elements below the smallest normal number, 1e-38 in float32,
// may count as zeros. x has 1 dimension or more.
func (n *Net) Normalize(x *gorgonia.Node, name string) *gorgonia.Node {
	if !n.rows(operation("normalize", name, x), x) {
		return nil
	}
	return n.function("normalize", x, name, func(c calc, x kernels.Value) kernels.Value {
		return c.unit(x, []int{len(c.Spec(x).Shape) - 1})
	})
}

// CosineSimilarity adds the cosine of the angle between each row of a and that of b, a·b/(|a|·|b|),
// from -1 to 1. With zeros it is 0, and so are the gradients.
// a, b [B, ...] → [B].
func (n *Net) CosineSimilarity(a, b *gorgonia.Node, name string) *gorgonia.Node {
	return n.pairLoss("cosine similarity", name, func(c calc, x []kernels.Value) kernels.Value { return c.cosine(x[0], x[1]) }, a, b)
}

// CosineEmbedding adds a loss of pairs of vectors: 1 - cos for those that are alike, and
// max(0, cos - margin) for others, where cos is their [Net.CosineSimilarity]. alike [B] is above 0 for the former, so
// that 1 and 0 serve as well as 1 and -1. margin is from -1 to 1.
// a, b [B, ...] → [B].
func (n *Net) CosineEmbedding(a, b, alike *gorgonia.Node, margin float64, name string) *gorgonia.Node {
	if !(margin >= -1 && margin <= 1) {
		return n.badOption("cosine embedding", name, a, "margin", margin, "must be from -1 to 1")
	}
	return n.labelledPairs("cosine embedding", a, b, alike, name, func(c calc, a, b, alike kernels.Value) kernels.Value {
		cos := c.cosine(a, b)
		return c.where(alike, c.affine(cos, -1, 1), c.of(kernels.ReLU, c.affine(cos, 1, -margin)))
	})
}

// Contrastive adds a loss of pairs of vectors: d² for those that are alike, max(0, margin - d)² for
// others, where d is their Euclidean distance. alike [B] is above 0 for the former. margin is above
// 0. The gradient of a distance of 0 is 0: equal vectors are not driven apart.
// a, b [B, ...] → [B]. Source: Hadsell, Chopra and LeCun, 2006, without the factor 1/2.
func (n *Net) Contrastive(a, b, alike *gorgonia.Node, margin float64, name string) *gorgonia.Node {
	if !(margin > 0) || !finite(margin) {
		return n.badOption("contrastive", name, a, "margin", margin, "must be above 0 and finite")
	}
	return n.labelledPairs("contrastive", a, b, alike, name, func(c calc, a, b, alike kernels.Value) kernels.Value {
		e := c.two(kernels.Sub, a, b)
		near := c.of(kernels.ReLU, c.affine(c.distance(e), -1, margin))
		return c.where(alike, c.rowSum(c.of(kernels.Square, e)), c.of(kernels.Square, near))
	})
}

// Triplet adds max(0, d(anchor, positive) - d(anchor, negative) + margin) for each row, where d is
// the Euclidean distance: the positive is to be nearer than the negative, by a margin of 0 or more.
// The gradient of a distance of 0 is 0.
// anchor, positive, negative [B, ...] → [B]. Source: Schroff, Kalenichenko and Philbin, 2015,
// without the squares.
func (n *Net) Triplet(anchor, positive, negative *gorgonia.Node, margin float64, name string) *gorgonia.Node {
	if !(margin >= 0) || !finite(margin) {
		return n.badOption("triplet", name, anchor, "margin", margin, "must be 0 or more and finite")
	}
	return n.pairLoss("triplet", name, func(c calc, x []kernels.Value) kernels.Value {
		to := func(k int) kernels.Value { return c.distance(c.two(kernels.Sub, x[0], x[k])) }
		return c.of(kernels.ReLU, c.affine(c.two(kernels.Sub, to(1), to(2)), 1, margin))
	}, anchor, positive, negative)
}

// InfoNCE adds the cross entropy of each row of a with its partner, the row of b of the same
// number, among all rows of b: the logits are the [Net.CosineSimilarity] of all pairs, divided by
// temperature, which is above 0. SimCLR and CLIP add the same loss with a and b exchanged.
// a, b [B, ...] → [B]. Source: van den Oord, Li and Vinyals, 2018.
//
// The loss of a row depends on all others of its batch: a short batch has fewer rows to tell apart,
// and a row alone has a loss of 0. Drop the tail, and compare evaluations of one batch size.
func (n *Net) InfoNCE(a, b *gorgonia.Node, temperature float64, name string) *gorgonia.Node {
	if !(temperature > 0) || !finite(temperature) || !finite(1/temperature) {
		return n.badOption("infonce", name, a, "temperature", temperature, "must be above 0 and finite")
	}
	return n.pairLoss("infonce", name, func(c calc, x []kernels.Value) kernels.Value {
		a, b := c.unit(c.flatRows(x[0]), []int{1}), c.unit(c.flatRows(x[1]), []int{1})
		logits := c.affine(c.Apply(kernels.MatMul, kernels.MatMulAttrs{TransB: true}, a, b), 1/temperature, 0)
		own := c.of(kernels.Truncate, c.indices(a, c.Spec(a).Shape[0]))
		return c.two(kernels.CrossEntropy, logits, own)
	}, a, b)
}

// pairLoss adds a loss of the rows of nodes of one type and shape.
func (n *Net) pairLoss(what, name string, f func(c calc, x []kernels.Value) kernels.Value, in ...*gorgonia.Node) *gorgonia.Node {
	layer := operation(what, name, in[0])
	if !n.rows(layer, in[0]) {
		return nil
	}
	for _, x := range in[1:] {
		if !n.sameAs(layer, "input", x, "first input", in[0]) {
			return nil
		}
	}
	return n.compose(what, name, func(g kernels.Graph, x []kernels.Value) kernels.Value { return f(calc{g}, x) }, in...)
}

// labelledPairs adds a loss of rows of a and b, and of a number for each: f gets 1 where it is
// above 0, and 0 elsewhere.
func (n *Net) labelledPairs(what string, a, b, alike *gorgonia.Node, name string, f func(c calc, a, b, alike kernels.Value) kernels.Value) *gorgonia.Node {
	layer := operation(what, name, a)
	if !n.rows(layer, a) || !n.sameAs(layer, "input", b, "first input", a) || !n.perRowFlags(layer, "alike", alike, a) {
		return nil
	}
	return n.compose(what, name, func(g kernels.Graph, in []kernels.Value) kernels.Value {
		c := calc{g}
		return f(c, in[0], in[1], c.two(kernels.Greater, in[2], c.scalar(in[2], 0)))
	}, a, b, alike)
}

// unit is x divided by its norm along axes, zeros where it is 0.
func (c calc) unit(x kernels.Value, axes []int) kernels.Value {
	// (x/s)/√Σ(x/s)², s = max |x|: the sum is 1 or more unless all elements are 0, and then the
	// floor has the gradient and nothing is chosen.
	s := c.detach(c.reduce(kernels.Max, c.of(kernels.Abs, x), axes))
	least, most := c.limits(x)
	scaled := c.two(kernels.Div, x, c.clamp(s, least, most))
	sum := c.reduce(kernels.Sum, c.of(kernels.Square, scaled), axes)
	y := c.mul(scaled, c.of(kernels.InverseSqrt, c.two(kernels.Maximum, sum, c.scalar(x, 0.25))))
	return c.where(s, y, c.scalar(x, 0))
}

// cosine is the cosine similarity of the rows of a and b: [B].
func (c calc) cosine(a, b kernels.Value) kernels.Value {
	a, b = c.flatRows(a), c.flatRows(b)
	return c.rowSum(c.mul(c.unit(a, []int{1}), c.unit(b, []int{1})))
}

// distance is the Euclidean norm of the rows of a difference: [B]. Its gradient at 0 is 0.
func (c calc) distance(e kernels.Value) kernels.Value {
	e = c.flatRows(e)
	return c.reshape(c.norm(e, []int{1}), c.Spec(e).Shape[:1])
}
