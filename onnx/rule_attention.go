package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Attention, rotary embeddings and gated units.
var attentionRules = map[string][]rule{
	"Attention":       {{since: 23, apply: attention}},
	"RotaryEmbedding": {{since: 23, apply: rotaryEmbedding}},
	"SwiGLU":          {{since: 28, apply: swiGLU}},
}

// Points in the computation that the fourth result of Attention may be.
const (
	scoresAlone   = 0
	scoresCapped  = 1
	scoresMasked  = 2
	probabilities = 3
)

// attention is softmax(q·kᵀ·scale + mask)·v for each head. Keys and values may have fewer heads
// than queries: each serves several. A row of which every key is masked is 0.
//
//	q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E] → y [B, H, Q, E]
//
// Operands of three dimensions have the heads within the last one: [B, Q, H·D] → [B, Q, H·E].
func attention(c *call) []*value {
	if p := proto.DataType(c.attrInt("softmax_precision", 1)); p != proto.Float && p != proto.Double {
		refuse("a softmax in %v", p)
	}
	flat := len(c.shape(0)) == 3
	q := c.heads(0, "q_num_heads")
	k, v := c.heads(1, "kv_num_heads"), c.heads(2, "kv_num_heads")
	past := 0
	if c.arg(4) != nil || c.arg(5) != nil {
		past = c.shape(4)[min(2, len(c.shape(4))-1)]
		k, v = c.concat(2, c.float(4), k), c.concat(2, c.float(5), v)
	}
	present := []kernels.Value{k, v}
	queries := c.Spec(q).Shape
	k, v = c.repeatHeads(k, queries[1]), c.repeatHeads(v, queries[1])
	scale := c.attrFloat("scale", 0)
	if c.n.Attribute("scale") == nil {
		scale = 1 / math.Sqrt(float64(queries[3]))
	}
	points := make([]kernels.Value, 4)
	scores := c.affine(c.matmul(q, c.transpose(k, []int{0, 1, 3, 2})), scale, 0)
	points[scoresAlone] = scores
	if limit := c.attrFloat("softcap", 0); limit > 0 {
		scores = c.affine(c.of(kernels.Tanh, c.affine(scores, 1/limit, 0)), limit, 0)
	}
	points[scoresCapped] = scores
	scores, allowed := c.masked(scores, past)
	points[scoresMasked] = scores
	weights := c.Apply(kernels.Softmax, kernels.SoftmaxAttrs{Axis: 3}, scores)
	if allowed != kernels.None {
		any := maxOf(c, c.expand(allowed, c.Spec(scores).Shape), kernels.ReduceAttrs{Axes: []int{3}, Keep: true})
		weights = c.Apply(kernels.Where, nil, any, weights, c.scalar(weights, 0))
	}
	points[probabilities] = weights
	y := c.matmul(weights, v)
	if flat {
		s := c.Spec(y).Shape
		y = c.reshape(c.transpose(y, []int{0, 2, 1, 3}), kernels.Shape{s[0], s[2], s[1] * s[3]})
	}
	point := c.attrInt("qk_matmul_output_mode", 0)
	if point < 0 || point > probabilities {
		badAttribute("qk_matmul_output_mode is %d", point)
	}
	typ := c.must(0).typ
	return []*value{c.out(y, typ), c.out(present[0], typ), c.out(present[1], typ), c.out(points[point], typ)}
}

// heads returns operand i as [B, heads, rows, size].
func (c *call) heads(i int, count string) kernels.Value {
	x, s := c.float(i), c.shape(i)
	switch n := c.attrInt(count, 0); {
	case len(s) == 4:
		return x
	case len(s) != 3:
		mismatch("operand %d is %v, must have 3 or 4 dimensions", i, s)
	case n < 1 || s[2]%n != 0:
		badAttribute("%s is %d for %v", count, n, s)
	default:
		x = c.transpose(c.reshape(x, kernels.Shape{s[0], s[1], n, s[2] / n}), []int{0, 2, 1, 3})
	}
	return x
}

// repeatHeads returns x with each head several times in a row, count in all.
func (c *call) repeatHeads(x kernels.Value, count int) kernels.Value {
	s := c.Spec(x).Shape
	if s[1] == count {
		return x
	}
	if s[1] < 1 || count%s[1] != 0 {
		mismatch("%d heads of queries and %d of keys", count, s[1])
	}
	x = c.expand(c.reshape(x, kernels.Shape{s[0], s[1], 1, s[2], s[3]}), kernels.Shape{s[0], s[1], count / s[1], s[2], s[3]})
	return c.reshape(x, kernels.Shape{s[0], count, s[2], s[3]})
}

// masked returns the scores, -Inf where a key is masked, and which are allowed: 1, or 0. None: all
// are.
func (c *call) masked(scores kernels.Value, past int) (kernels.Value, kernels.Value) {
	allowed := kernels.None
	and := func(a kernels.Value) {
		if allowed == kernels.None {
			allowed = a
		} else {
			allowed = c.mul(allowed, a)
		}
	}
	s := c.Spec(scores).Shape
	if c.arg(3) != nil {
		var mask kernels.Value
		if scores, mask = c.attentionMask(scores); mask != kernels.None {
			and(mask)
		}
	}
	left, right := c.attrInt("left_window_size", -1), c.attrInt("right_window_size", -1)
	if c.attrBool("is_causal", false) {
		and(c.band(s, past, -1, 0))
	}
	if left >= 0 || right >= 0 {
		and(c.band(s, past, left, right))
	}
	if c.arg(6) != nil { // keys of each sample that are no padding
		and(c.lessThan(kernels.Shape{1, 1, 1, s[3]}, func(at []int) int { return at[3] + 1 }))
	}
	if allowed == kernels.None {
		return scores, allowed
	}
	allowed = c.as(allowed, c.Spec(scores).Type)
	return c.Apply(kernels.Where, nil, allowed, scores, c.scalar(scores, math.Inf(-1))), allowed
}

// attentionMask adds a mask of floats, whose elements of -Inf mask a key, or returns one of bools.
// Keys beyond the mask are masked.
func (c *call) attentionMask(scores kernels.Value) (sum, allowed kernels.Value) {
	m, keys := c.must(3), c.Spec(scores).Shape[3]
	x := c.plain(3)
	if len(m.shape) < 1 || len(m.shape) > 4 || m.shape[len(m.shape)-1] > keys {
		mismatch("a mask of %v for %v", m.shape, c.Spec(scores).Shape)
	}
	if m.typ != proto.Bool && !m.typ.IsFloat() {
		mismatch("a mask of type %v", m.typ)
	}
	fill := 0.0
	if m.typ != proto.Bool {
		fill = math.Inf(-1)
	}
	if last := len(m.shape) - 1; m.shape[last] < keys {
		rest := slices.Clone(m.shape)
		rest[last] = keys - m.shape[last]
		x = c.concat(last, x, c.expand(c.scalar(x, fill), rest))
	}
	if m.typ == proto.Bool {
		return scores, x
	}
	allowed = c.two(kernels.NotEqual, x, c.scalar(x, fill))
	finite := c.Apply(kernels.Where, nil, allowed, x, c.scalar(x, 0))
	return c.plus(scores, finite), allowed
}

// band allows query i, at position past + i, the keys from left positions before it to right after
// it; -1 is no limit. With a number of keys for each sample, in operand 6, the last query is at the
// last key.
func (c *call) band(s kernels.Shape, past, left, right int) kernels.Value {
	const none = math.MaxInt32
	if left < 0 {
		left = none
	}
	if right < 0 {
		right = none
	}
	shape := kernels.Shape{1, 1, s[2], s[3]}
	if c.arg(6) == nil {
		data := make([]float64, shape.Elems())
		for i := range data {
			if after := i%s[3] - (past + i/s[3]); after <= right && -after <= left {
				data[i] = 1
			}
		}
		return c.literal(arena.Float32, shape, data)
	}
	// key - (query + keys - queries) ≤ right, as key - query + queries - right < keys + 1; and the
	// same to the left.
	allowed := kernels.None
	if right != none {
		allowed = c.lessThan(shape, func(at []int) int { return at[3] - at[2] + s[2] - right })
	}
	if left != none {
		within := c.affine(c.lessThan(shape, func(at []int) int { return at[3] - at[2] + s[2] + left + 1 }), -1, 1)
		if allowed != kernels.None {
			within = c.mul(within, allowed)
		}
		allowed = within
	}
	return allowed
}

// lessThan is 1 where f of the index is at most the number of keys of the sample, in operand 6.
func (c *call) lessThan(shape kernels.Shape, f func(at []int) int) kernels.Value {
	data, at := make([]float64, shape.Elems()), make([]int, len(shape))
	for i := range data {
		unravel(at, i, shape)
		data[i] = float64(f(at))
	}
	keys := c.integers(6)
	rows := c.reshape(keys, kernels.Shape{c.Spec(keys).Shape[0], 1, 1, 1})
	return c.as(c.index(kernels.IntegerLessEqual, c.literal(arena.Int64, shape, data), rows), arena.Float32)
}

// rotaryEmbedding turns pairs of elements of each head by angles, whose cosines and sines are given
// for each position, or, with positions in operand 3, for each of these.
func rotaryEmbedding(c *call) []*value {
	s, x := c.shape(0), c.float(0)
	rows := x // [B, S, heads, size]
	switch n := c.attrInt("num_heads", 0); {
	case len(s) == 4:
		rows = c.transpose(x, []int{0, 2, 1, 3})
	case len(s) != 3 || n < 1 || s[2]%n != 0:
		badAttribute("%d heads of %v", n, s)
	default:
		rows = c.reshape(x, kernels.Shape{s[0], s[1], n, s[2] / n})
	}
	r := c.Spec(rows).Shape
	size := c.attrInt("rotary_embedding_dim", 0)
	if size == 0 {
		size = r[3]
	}
	if size%2 != 0 || size < 2 || size > r[3] {
		badAttribute("%d of %d elements are turned", size, r[3])
	}
	cos, sin := c.angles(1, r, size/2), c.angles(2, r, size/2)
	interleaved := c.attrBool("interleaved", false)
	part := func(k int) kernels.Value {
		a := whole(r)
		a.Start[3], a.End[3] = k*size/2, (k+1)*size/2
		if interleaved {
			a.Start[3], a.End[3], a.Step[3] = k, size-1+k, 2
		}
		return c.Apply(kernels.Slice, a, rows)
	}
	a, b := part(0), part(1)
	real := c.two(kernels.Sub, c.mul(cos, a), c.mul(sin, b))
	imag := c.plus(c.mul(sin, a), c.mul(cos, b))
	var y kernels.Value
	if interleaved {
		pair := kernels.Shape{r[0], r[1], r[2], size / 2, 1}
		y = c.reshape(c.concat(4, c.reshape(real, pair), c.reshape(imag, pair)), kernels.Shape{r[0], r[1], r[2], size})
	} else {
		y = c.concat(3, real, imag)
	}
	if size < r[3] {
		y = c.concat(3, y, c.slice(rows, 3, size, r[3]))
	}
	if len(s) == 4 {
		y = c.transpose(y, []int{0, 2, 1, 3})
	}
	return c.one(c.reshape(y, s))
}

// angles returns operand i as [B or 1, S, 1, half].
func (c *call) angles(i int, rows kernels.Shape, half int) kernels.Value {
	x, s := c.float(i), c.shape(i)
	if len(s) < 2 || s[len(s)-1] != half {
		mismatch("operand %d is %v, for pairs of %d elements", i, s, half)
	}
	if c.arg(3) != nil {
		if len(s) != 2 {
			mismatch("operand %d is %v, must have a row for each position", i, s)
		}
		x = c.gather(x, 0, c.integers(3))
	}
	return c.reshape(x, kernels.Shape{rows[0], rows[1], 1, half})
}

func swiGLU(c *call) []*value {
	a, b := c.float(0), c.float(1)
	gate := c.mul(a, c.of(kernels.Sigmoid, c.affine(a, c.attrFloat("alpha", 1), 0)))
	if !c.shape(0).Equal(c.shape(1)) {
		mismatch("%v and %v", c.shape(0), c.shape(1))
	}
	return c.one(c.mul(gate, b))
}
