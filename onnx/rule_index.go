package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Selection by indices, and operators that find indices.
var indexRules = map[string][]rule{
	"Gather":         always(gather),
	"GatherElements": {{since: 11, apply: gatherElements}},
	"GatherND":       {{since: 11, apply: gatherND}},
	"OneHot":         {{since: 9, apply: oneHot}},
	"ArgMax":         always(argMax(false)),
	"ArgMin":         always(argMax(true)),
	"TopK":           {{since: 10, apply: topK}},
}

// known indices are checked and made 0 or more. Those that the model computes must be: a step with
// another one is an error.
func (c *call) knownIndices(i, size int) []int {
	list := c.ints(i, "the indices")
	for k, x := range list {
		list[k] = fromStart(x, size)
	}
	return list
}

// fromStart returns an index of a dimension as 0, 1, …; it may count from the end.
func fromStart(x, size int) int {
	if x < -size || x >= size {
		badAttribute("index %d of a dimension of %d", x, size)
	}
	if x < 0 {
		x += size
	}
	return x
}

// fromStarts is fromStart for indices that the model computes. Those outside stay outside.
func (c *call) fromStarts(index kernels.Value, size int) kernels.Value {
	negative := c.index(kernels.IntegerLess, index, c.indices([]int{0}))
	return c.index(kernels.IntegerAdd, index, c.index(kernels.IntegerMul, negative, c.indices([]int{size})))
}

// integers is the node of operand i as a vector of integers.
func (c *call) integers(i int) kernels.Value {
	v := c.must(i)
	if v.typ.IsFloat() || v.typ == proto.Bool {
		mismatch("operand %d is of type %v, must be of integers", i, v.typ)
	}
	return c.reshape(c.plain(i), kernels.Shape{v.shape.Elems()})
}

func gather(c *call) []*value {
	s, index := c.shape(0), c.must(1)
	k := axis(c.attrInt("axis", 0), len(s))
	x := c.node(0)
	var y kernels.Value
	if index.con != nil {
		list := c.knownIndices(1, s[k])
		if len(list) == 0 {
			if !c.folding {
				refuse("no indices")
			}
			y = c.slice(x, k, 0, 0)
		} else {
			y = c.pick(x, k, list)
		}
	} else {
		y = c.gather(x, k, c.integers(1))
	}
	return c.one(c.reshape(y, slices.Concat(s[:k], index.shape, s[k+1:])))
}

// ravel returns the element of operand 0 at a place. The operand may be smaller than the indices
// that the place is of: those are refused.
func (c *call) ravel(at []int) int {
	s, i := c.shape(0), 0
	for a, p := range at {
		if p >= s[a] {
			mismatch("indices %v for %v", c.shape(1), s)
		}
		i = i*s[a] + p
	}
	return i
}

// gatherElements selects an element for each index, along an axis: rows of the flat operand.
func gatherElements(c *call) []*value {
	s, index := c.shape(0), c.must(1)
	k := axis(c.attrInt("axis", 0), len(s))
	if len(index.shape) != len(s) {
		mismatch("indices %v for %v", index.shape, s)
	}
	n := index.shape.Elems()
	if n > c.b.limit {
		refuse("%d indices: see Options.FoldElements", n)
	}
	// Element i of the result is at rest[i] + index[i]·step of x.
	step, rest, at := s[k+1:].Elems(), make([]int, n), make([]int, len(s))
	for i := range rest {
		unravel(at, i, index.shape)
		at[k] = 0
		rest[i] = c.ravel(at)
	}
	flat := c.reshape(c.node(0), kernels.Shape{s.Elems()})
	var place kernels.Value
	if index.con != nil {
		for i, x := range c.knownIndices(1, s[k]) {
			rest[i] += x * step
		}
		place = c.indices(rest)
	} else {
		number := func(x int) kernels.Value { return c.indices([]int{x}) }
		at := c.fromStarts(c.integers(1), s[k])
		inside := c.index(kernels.IntegerMul, c.index(kernels.IntegerLessEqual, number(0), at), c.index(kernels.IntegerLess, at, number(s[k])))
		for i := range rest {
			rest[i]++
		}
		place = c.index(kernels.IntegerAdd, c.index(kernels.IntegerMul, at, number(step)), c.indices(rest))
		place = c.index(kernels.IntegerSub, c.index(kernels.IntegerMul, place, inside), number(1)) // -1: an IndexError
	}
	return c.one(c.reshape(c.Apply(kernels.Gather, nil, flat, place), index.shape))
}

// gatherND selects parts by lists of indices, which must be known. With batch_dims, the first
// dimensions of both are the same, and each sample has indices of its own.
func gatherND(c *call) []*value {
	all, index := c.shape(0), c.must(1)
	b := c.attrInt("batch_dims", 0)
	if len(index.shape) == 0 || b < 0 || b >= len(index.shape) || b >= len(all) || !all[:b].Equal(index.shape[:b]) {
		mismatch("indices %v for %v, batch_dims %d", index.shape, all, b)
	}
	batch, s := all[:b].Elems(), all[b:]
	lead := index.shape[:len(index.shape)-1]
	depth := index.shape[len(lead)]
	if depth < 1 || depth > len(s) {
		mismatch("indices %v for %v", index.shape, s)
	}
	list := c.ints(1, "the indices")
	rows := make([]int, 0, lead.Elems())
	for ; len(list) > 0; list = list[depth:] {
		at := len(rows) * batch / lead.Elems()
		for a, x := range list[:depth] {
			at = at*s[a] + fromStart(x, s[a])
		}
		rows = append(rows, at)
	}
	if len(rows) == 0 {
		refuse("no indices")
	}
	inner := s[depth:].Elems()
	y := c.Apply(kernels.Gather, nil, c.reshape(c.node(0), kernels.Shape{batch * s[:depth].Elems(), inner}), c.indices(rows))
	return c.one(c.reshape(y, slices.Concat(lead, s[depth:])))
}

// oneHot makes a row of each index. An index below 0 counts from the end; one outside gives the
// first value only.
func oneHot(c *call) []*value {
	index, values := c.must(0), c.constant(2, "the values")
	depth, typ := int(c.number(1, "the depth")), c.must(2).typ
	if len(values) != 2 || depth < 1 || depth > c.b.limit {
		badAttribute("%d values and a depth of %d", len(values), depth)
	}
	if !typ.IsFloat() || index.typ.IsFloat() || c.folding {
		refuse("indices of type %v and values of type %v", index.typ, typ)
	}
	rank := len(index.shape) + 1
	k := axis(c.attrInt("axis", -1), rank)
	x := c.reshape(c.node(0), slices.Insert(slices.Clone(index.shape), k, 1))
	at := c.numbered(rank, k, depth)
	// At most one of them: an index and the same index from the end.
	hit := c.index(kernels.IntegerAdd, c.index(kernels.IntegerEqual, x, at),
		c.index(kernels.IntegerEqual, c.index(kernels.IntegerAdd, x, c.indices([]int{depth})), at))
	y := c.as(hit, storage(typ))
	return []*value{c.out(c.affine(y, values[1]-values[0], values[0]), typ)}
}

// argMax finds the first of the largest or smallest elements.
func argMax(smallest bool) ruleFunc {
	return func(c *call) []*value {
		x, s := c.float(0), c.shape(0)
		k := axis(c.attrInt("axis", 0), len(s))
		last := c.attrBool("select_last_index", false)
		if last { // the first one of the reversed axis
			reversed := upTo(s[k])
			slices.Reverse(reversed)
			x = c.pick(x, k, reversed)
		}
		if smallest {
			x = c.of(kernels.Neg, x)
		}
		index := c.ApplyAll(kernels.TopK, kernels.TopKAttrs{Axis: k, K: 1}, x)[1]
		if last {
			index = c.index(kernels.IntegerSub, c.indices([]int{s[k] - 1}), index)
		}
		if !c.attrBool("keepdims", true) {
			index = c.reshape(index, slices.Delete(slices.Clone(s), k, k+1))
		}
		return []*value{c.out(index, proto.Int64)}
	}
}

// topK finds the largest or smallest elements and their indices. Sorted or not, they are in order.
func topK(c *call) []*value {
	x, s := c.float(0), c.shape(0)
	k, count := axis(c.attrInt("axis", -1), len(s)), c.number(1, "k")
	if count < 1 || count > float64(s[k]) {
		badAttribute("%v elements of %d", count, s[k])
	}
	smallest := !c.attrBool("largest", true)
	if smallest {
		x = c.of(kernels.Neg, x)
	}
	y := c.ApplyAll(kernels.TopK, kernels.TopKAttrs{Axis: k, K: int(count)}, x)
	if smallest {
		y[0] = c.of(kernels.Neg, y[0])
	}
	return []*value{c.out(y[0], c.must(0).typ), c.out(y[1], proto.Int64)}
}
