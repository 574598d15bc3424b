package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Writing to places, and choosing by them. The places must be known at import.
var scatterRules = map[string][]rule{
	"Scatter":         {{since: 9, apply: scatterElements}},
	"ScatterElements": {{since: 11, apply: scatterElements}},
	"ScatterND":       {{since: 11, apply: scatterND}},
	"ReverseSequence": {{since: 10, apply: reverseSequence}},
	"Compress":        {{since: 9, apply: compress}},
	"CenterCropPad":   {{since: 18, apply: centerCropPad}},
}

// scatterElements writes elements to places along an axis.
func scatterElements(c *call) []*value {
	s, index := c.shape(0), c.shape(1)
	k := axis(c.attrInt("axis", 0), len(s))
	if len(index) != len(s) || !index.Equal(c.shape(2)) {
		mismatch("indices %v and updates %v for %v", index, c.shape(2), s)
	}
	at, place := c.knownIndices(1, s[k]), make([]int, len(s))
	for i, x := range at {
		unravel(place, i, index)
		place[k] = x
		at[i] = c.ravel(place)
	}
	return c.one(c.scatter(at, 1))
}

// scatterND writes parts to places that the last axis of the indices gives.
func scatterND(c *call) []*value {
	s, index := c.shape(0), c.shape(1)
	if len(index) == 0 || index[len(index)-1] > len(s) {
		mismatch("indices %v for %v", index, s)
	}
	depth := index[len(index)-1]
	if want := slices.Concat(index[:len(index)-1], s[depth:]); !c.shape(2).Equal(want) {
		mismatch("updates %v, must be %v", c.shape(2), want)
	}
	if c.must(1).con == nil && depth == 1 && c.attrText("reduction", "none") == "add" {
		return c.one(c.scatterAdd(s[1:].Elems()))
	}
	list := c.ints(1, "the indices")
	at := make([]int, index[:len(index)-1].Elems())
	for i := range at {
		for a, x := range list[i*depth : (i+1)*depth] {
			at[i] = at[i]*s[a] + fromStart(x, s[a])
		}
	}
	return c.one(c.scatter(at, s[depth:].Elems()))
}

// scatterAdd adds rows of a size to places along the first axis that the model computes.
func (c *call) scatterAdd(size int) kernels.Value {
	s := c.shape(0)
	index := c.fromStarts(c.integers(1), s[0])
	updates := c.reshape(c.float(2), kernels.Shape{c.Spec(index).Shape[0], size})
	sums := c.Apply(kernels.Scatter, kernels.ScatterAttrs{Rows: s[0]}, index, updates)
	return c.plus(c.float(0), c.reshape(sums, s))
}

// scatter writes row i of operand 2 to row at[i] of operand 0, whose rows have a size: in its
// place, or combined with it. Of several rows for one place the last one stays, or all are combined
// in their order.
func (c *call) scatter(at []int, size int) kernels.Value {
	s := c.shape(0)
	rows := s.Elems() / max(size, 1)
	if size < 1 || len(at) == 0 || s.Elems() > c.b.limit {
		refuse("%d places of %v: see Options.FoldElements", len(at), s)
	}
	if c.must(0).typ != c.must(2).typ {
		mismatch("operands of types %v and %v", c.must(0).typ, c.must(2).typ)
	}
	x := c.reshape(c.node(0), kernels.Shape{rows, size})
	updates := c.reshape(c.node(2), kernels.Shape{len(at), size})
	mode := c.attrText("reduction", "none")
	op := map[string]*kernels.Op{"none": nil, "add": kernels.Add, "mul": kernels.Mul, "max": kernels.Maximum, "min": kernels.Minimum}[mode]
	switch {
	case op == nil && mode != "none":
		badAttribute("reduction is %q", mode)
	case op != nil && !c.Spec(x).Type.Float():
		refuse("reduction %q of type %v", mode, c.must(0).typ)
	}
	// Each round writes at most one row to each place: row i of the result is row from[i] of x and
	// the updates together.
	for left := at; ; {
		from, places, again := make([]int, rows), []int(nil), make([]int, 0)
		for i := range from {
			from[i] = i
		}
		for i, place := range left {
			switch {
			case place < 0: // written in an earlier round
				again = append(again, -1)
			case op != nil && from[place] != place:
				again = append(again, place)
			default:
				from[place] = rows + i
				again = append(again, -1)
			}
		}
		for i := range from {
			if from[i] != i {
				places = append(places, i)
			}
		}
		y := c.Apply(kernels.Gather, nil, c.concat(0, x, updates), c.indices(from))
		if op != nil {
			written := make([]float64, rows)
			for _, i := range places {
				written[i] = 1
			}
			mask := c.literal(c.Spec(x).Type, kernels.Shape{rows, 1}, written)
			y = c.Apply(kernels.Where, nil, mask, c.two(op, x, y), x)
		}
		x = y
		if !slices.ContainsFunc(again, func(p int) bool { return p >= 0 }) {
			break
		}
		left = again
	}
	return c.reshape(x, s)
}

// reverseSequence turns the first steps of each sequence around.
func reverseSequence(c *call) []*value {
	s := c.shape(0)
	batch, time := axis(c.attrInt("batch_axis", 1), max(2, len(s))), axis(c.attrInt("time_axis", 0), max(2, len(s)))
	if len(s) < 2 || batch == time || batch > 1 || time > 1 {
		badAttribute("batch_axis %d and time_axis %d of %v", batch, time, s)
	}
	lengths := c.ints(1, "the lengths")
	if len(lengths) != s[batch] {
		mismatch("%d lengths of %d sequences", len(lengths), s[batch])
	}
	index := make([]int, s[0]*s[1])
	for b, n := range lengths {
		if n < 0 || n > s[time] {
			badAttribute("a length of %d of %d steps", n, s[time])
		}
		for t := range s[time] {
			from := t
			if t < n {
				from = n - 1 - t
			}
			if batch == 0 {
				index[b*s[1]+t] = b*s[1] + from
			} else {
				index[t*s[1]+b] = from*s[1] + b
			}
		}
	}
	x := c.reshape(c.node(0), kernels.Shape{s[0] * s[1], s[2:].Elems()})
	return c.one(c.reshape(c.pick(x, 0, index), s))
}

// compress chooses by a list of bools.
func compress(c *call) []*value {
	x, s := c.node(0), c.shape(0)
	k := 0
	if a := c.n.Attribute("axis"); a != nil {
		k = axis(int(a.I), len(s))
	} else {
		s = kernels.Shape{s.Elems()}
		x = c.reshape(x, s)
	}
	var index []int
	for i, keep := range c.constant(1, "the condition") {
		if keep == 0 {
			continue
		}
		if i >= s[k] {
			mismatch("a condition for element %d of %d", i, s[k])
		}
		index = append(index, i)
	}
	if len(index) == 0 {
		refuse("nothing is chosen")
	}
	return c.one(c.pick(x, k, index))
}

// centerCropPad cuts or pads axes about their centre.
func centerCropPad(c *call) []*value {
	s, sizes, which := c.shape(0), c.sizesOfResult(1), c.attrInts("axes")
	which = orAll(which, len(s))
	axes(which, len(s))
	if len(sizes) != len(which) {
		badAttribute("%d sizes for %d axes", len(sizes), len(which))
	}
	lo, hi := make([]int, len(s)), make([]int, len(s))
	for i, k := range which {
		k = axis(k, len(s))
		if more := sizes[i] - s[k]; more >= 0 {
			lo[k], hi[k] = more/2, more-more/2
		} else {
			lo[k], hi[k] = -(-more / 2), more+(-more/2)
		}
	}
	return c.one(c.padConstant(c.node(0), lo, hi, 0))
}
