package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Operators that move elements, of any type.
var moveRules = map[string][]rule{
	"Reshape":   {{since: 5, apply: reshape}},
	"Flatten":   always(flatten),
	"Squeeze":   {{since: 1, apply: squeeze(attributeAxes)}, {since: 13, apply: squeeze(operandAxes)}},
	"Unsqueeze": {{since: 1, apply: unsqueeze(attributeAxes)}, {since: 13, apply: unsqueeze(operandAxes)}},
	"Transpose": always(transpose),
	"Concat":    always(concat),
	"Expand": {{since: 8, apply: func(c *call) []*value {
		shape := broadcast(c.shape(0), c.sizesOfResult(1))
		return c.one(c.expand(c.node(0), shape))
	}}},
	"Tile":         {{since: 6, apply: tile}},
	"Slice":        {{since: 1, apply: slice1}, {since: 10, apply: slice10}},
	"Split":        {{since: 2, apply: split2}, {since: 13, apply: split13}},
	"Pad":          {{since: 2, apply: pad2}, {since: 11, apply: pad11}},
	"DepthToSpace": always(depthToSpace),
	"SpaceToDepth": always(spaceToDepth),
	"Trilu":        {{since: 14, apply: trilu}},
	"EyeLike":      {{since: 9, shapes: eyeLike}},
}

// sizesOfResult returns operand i as the shape of a computed value: each dimension is 1 or more.
func (c *call) sizesOfResult(i int) kernels.Shape {
	shape := kernels.Shape(c.ints(i, "the shape"))
	for _, d := range shape {
		if d < 0 || d == 0 && !c.folding {
			badAttribute("the shape is %v", []int(shape))
		}
	}
	ensure(kernels.Spec{Type: arena.Int64, Shape: shape}.Check())
	return shape
}

func reshape(c *call) []*value {
	from, to := c.shape(0), kernels.Shape(slices.Clone(c.ints(1, "the shape")))
	hole, spec := -1, kernels.Spec{Type: arena.Int64}
	for i, d := range to {
		switch {
		case d == 0 && !c.attrBool("allowzero", false):
			if i >= len(from) {
				mismatch("the shape %v copies a dimension that %v lacks", []int(to), from)
			}
			to[i] = from[i]
		case d == -1 && hole < 0:
			hole = i
			continue
		case d < 0:
			badAttribute("the shape is %v", []int(to))
		}
		spec.Shape = append(spec.Shape, to[i])
	}
	ensure(spec.Check())
	have, want := from.Elems(), spec.Shape.Elems()
	if hole >= 0 && want > 0 {
		to[hole] = have / want
		want *= to[hole]
	}
	if have != want || hole >= 0 && spec.Shape.Elems() == 0 {
		mismatch("%v does not fit the shape %v%s", from, c.ints(1, "the shape"), c.b.m.cure())
	}
	if want == 0 {
		return []*value{known(c.must(0).typ, to, nil)}
	}
	return c.one(c.reshape(c.node(0), to))
}

func flatten(c *call) []*value {
	s := c.shape(0)
	k := c.attrInt("axis", 1)
	if k < 0 {
		k += len(s)
	}
	if k < 0 || k > len(s) {
		badAttribute("axis %d of %d dimensions", c.attrInt("axis", 1), len(s))
	}
	return c.one(c.reshape(c.node(0), kernels.Shape{s[:k].Elems(), s[k:].Elems()}))
}

// attributeAxes and operandAxes return the axes of an older and of a newer version.
func attributeAxes(c *call) []int { return c.attrInts("axes") }

func operandAxes(c *call) []int {
	if c.arg(1) == nil {
		return nil
	}
	return c.ints(1, "the axes")
}

// orAll returns a list of axes, or the first n axes if it is nil.
func orAll(list []int, n int) []int {
	if list == nil {
		return upTo(n)
	}
	return list
}

// axes returns which axes of a rank are listed.
func axes(list []int, rank int) []bool {
	in := make([]bool, rank)
	for _, a := range list {
		a = axis(a, rank)
		if in[a] {
			badAttribute("axes %v have one twice", list)
		}
		in[a] = true
	}
	return in
}

func squeeze(which func(c *call) []int) ruleFunc {
	return func(c *call) []*value {
		s, list := c.shape(0), which(c)
		drop := axes(list, len(s))
		to := kernels.Shape{}
		for i, d := range s {
			if drop[i] && d != 1 {
				mismatch("dimension %d of %v is not 1", i, s)
			}
			if !drop[i] && (len(list) > 0 || d != 1) {
				to = append(to, d)
			}
		}
		return c.one(c.reshape(c.node(0), to))
	}
}

// mostRank limits dimensions, as ONNX's own checks of shapes do not.
const mostRank = 32

func unsqueeze(which func(c *call) []int) ruleFunc {
	return func(c *call) []*value {
		s, list := c.shape(0), which(c)
		if len(s)+len(list) > mostRank {
			badAttribute("%d dimensions", len(s)+len(list))
		}
		put := axes(list, len(s)+len(list))
		to, k := make(kernels.Shape, len(put)), 0
		for i := range to {
			if to[i] = 1; !put[i] {
				to[i] = s[k]
				k++
			}
		}
		return c.one(c.reshape(c.node(0), to))
	}
}

func transpose(c *call) []*value {
	perm := c.attrInts("perm")
	if perm == nil {
		perm = upTo(len(c.shape(0)))
		slices.Reverse(perm)
	}
	return c.one(c.Apply(kernels.Transpose, kernels.TransposeAttrs{Perm: perm}, c.node(0)))
}

func concat(c *call) []*value {
	k := axis(c.attrInt("axis", 0), len(c.shape(0)))
	var xs []kernels.Value
	for i, v := range c.in {
		if v == nil || v.typ != c.must(0).typ || len(v.shape) != len(c.shape(0)) {
			mismatch("operands differ in type or in dimensions")
		}
		if v.shape[k] > 0 {
			xs = append(xs, c.node(i))
		}
	}
	if len(xs) == 0 {
		return []*value{c.must(0)}
	}
	return c.one(c.concat(k, xs...))
}

func tile(c *call) []*value {
	s, repeats := c.shape(0), c.ints(1, "the repeats")
	if len(repeats) != len(s) {
		mismatch("%d repeats for %v", len(repeats), s)
	}
	// [a, b] → [1, a, 1, b] → [ra, a, rb, b] → [ra·a, rb·b]
	var one, many, to kernels.Shape
	for i, d := range s {
		r := repeats[i]
		if r < 1 || r > math.MaxInt32 {
			badAttribute("repeats are %v", repeats)
		}
		one, many, to = append(one, 1, d), append(many, r, d), append(to, r*d)
	}
	if slices.Equal(to, s) {
		return []*value{c.must(0)}
	}
	return c.one(c.reshape(c.expand(c.reshape(c.node(0), one), many), to))
}

// slice1 has bounds in attributes.
func slice1(c *call) []*value {
	return c.slices(c.attrInts("starts"), c.attrInts("ends"), c.attrInts("axes"), nil)
}

// slice10 has bounds in operands.
func slice10(c *call) []*value {
	list := func(i int, what string) []int {
		if c.arg(i) == nil {
			return nil
		}
		return c.ints(i, what)
	}
	return c.slices(c.ints(1, "the starts"), c.ints(2, "the ends"), list(3, "the axes"), list(4, "the steps"))
}

// slices selects ranges. Bounds below 0 count from the end, those outside are cut.
func (c *call) slices(starts, ends, which, steps []int) []*value {
	s := c.shape(0)
	which = orAll(which, len(starts))
	if len(ends) != len(starts) || len(which) != len(starts) || steps != nil && len(steps) != len(starts) {
		badAttribute("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(which), len(steps))
	}
	axes(which, len(s)) // refuses axes that are listed twice
	x, a := c.node(0), whole(s)
	type backward struct {
		axis  int
		index []int
	}
	var reversed []backward
	out := slices.Clone(s)
	for i, k := range which {
		k = axis(k, len(s))
		step := 1
		if steps != nil {
			step = steps[i]
		}
		first, end := bounds(starts[i], ends[i], step, s[k])
		if step < 0 {
			var index []int
			for p := first; p > end; p += max(step, -s[k]-1) {
				index = append(index, p)
			}
			reversed = append(reversed, backward{k, index})
			out[k] = len(index)
			continue
		}
		a.Start[k], a.End[k], a.Step[k] = first, max(first, end), min(step, max(1, s[k]))
		out[k] = a.End[k] - a.Start[k]
	}
	if slices.Contains(out, 0) {
		for k := range out {
			if a.Step[k] > 1 {
				out[k] = (out[k] + a.Step[k] - 1) / a.Step[k]
			}
		}
		return []*value{known(c.must(0).typ, out, nil)}
	}
	x = c.Apply(kernels.Slice, a, x)
	for _, r := range reversed {
		x = c.pick(x, r.axis, r.index)
	}
	return c.one(x)
}

// bounds returns the first index of a slice along a dimension of size d, and the one at which it
// ends.
func bounds(start, end, step, d int) (first, last int) {
	if step == 0 {
		badAttribute("a step is 0")
	}
	if start < 0 {
		start += d
	}
	if end < 0 {
		end += d
	}
	if step > 0 {
		return min(max(start, 0), d), min(max(end, 0), d)
	}
	return min(max(start, 0), d-1), min(max(end, -1), d-1)
}

// split2 has the sizes in an attribute, split13 in an operand.
func split2(c *call) []*value { return c.split(c.attrInts("split")) }

func split13(c *call) []*value {
	if c.arg(1) != nil {
		return c.split(c.ints(1, "the sizes"))
	}
	return c.split(nil)
}

// split cuts the operand into consecutive pieces. Without sizes they are equal, except that the
// last may be smaller.
func (c *call) split(sizes []int) []*value {
	s, n := c.shape(0), len(c.n.Outputs)
	k := axis(c.attrInt("axis", 0), len(s))
	if sizes == nil {
		if n == 0 || n > s[k] {
			badAttribute("%d pieces of %v along axis %d", n, s, k)
		}
		each := (s[k] + n - 1) / n
		for left := s[k]; left > 0; left -= each {
			sizes = append(sizes, min(each, left))
		}
	}
	x, at := c.node(0), 0
	var out []*value
	for _, size := range sizes {
		if size < 0 || size > s[k]-at {
			badAttribute("sizes %v of axis %d of %v", sizes, k, s)
		}
		if size == 0 {
			empty := slices.Clone(s)
			empty[k] = 0
			out = append(out, known(c.must(0).typ, empty, nil))
			continue
		}
		out = append(out, c.out(c.slice(x, k, at, at+size), c.must(0).typ))
		at += size
	}
	if at != s[k] || len(out) != n {
		badAttribute("sizes %v for %d outputs and axis %d of %v", sizes, n, k, s)
	}
	return out
}

// trilu clears the elements on one side of a diagonal.
func trilu(c *call) []*value {
	s, k := c.shape(0), 0
	if len(s) < 2 {
		mismatch("%v is no matrix", s)
	}
	if c.arg(1) != nil {
		k = int(c.number(1, "the diagonal"))
	}
	h, w := s[len(s)-2], s[len(s)-1]
	if h*w > c.b.limit {
		refuse("a triangle of %d by %d: see Options.FoldElements", h, w)
	}
	mask, upper := make([]float64, h*w), c.attrBool("upper", true)
	for i := range mask {
		if d := i%w - i/w; upper && d >= k || !upper && d <= k {
			mask[i] = 1
		}
	}
	x := c.node(0)
	m := c.literal(arena.Float32, kernels.Shape{h, w}, mask)
	return c.one(c.Apply(kernels.Where, nil, m, x, c.scalar(x, 0)))
}

// eyeLike is a matrix with ones on a diagonal.
func eyeLike(c *call) []*value {
	s, k := c.shape(0), c.attrInt("k", 0)
	if len(s) != 2 || s.Elems() > c.b.limit {
		mismatch("%v is no matrix, or has more than %d elements", s, c.b.limit)
	}
	data := make([]float64, s.Elems())
	for i := range data {
		if i%s[1]-i/s[1] == k {
			data[i] = 1
		}
	}
	return []*value{known(proto.DataType(c.attrInt("dtype", int(c.must(0).typ))), s, data)}
}
