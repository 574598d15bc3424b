package onnx

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Padding, and blocks of pixels that become channels.

// pad2 has the widths in an attribute, pad11 in an operand.
func pad2(c *call) []*value {
	return c.pad(c.attrInts("pads"), nil, c.attrFloat("value", 0))
}

func pad11(c *call) []*value {
	fill := 0.0
	if c.arg(2) != nil {
		fill = c.number(2, "the value")
	}
	var which []int
	if c.arg(3) != nil {
		which = c.ints(3, "the axes")
	}
	return c.pad(c.ints(1, "the widths"), which, fill)
}

// pad adds to the start and the end of axes; widths below 0 cut, before the others add.
func (c *call) pad(widths, which []int, fill float64) []*value {
	s := c.shape(0)
	which = orAll(which, len(s))
	if len(widths) != 2*len(which) {
		badAttribute("%d widths for %d axes", len(widths), len(which))
	}
	lo, hi := make([]int, len(s)), make([]int, len(s))
	axes(which, len(s))
	for i, k := range which {
		k = axis(k, len(s))
		lo[k], hi[k] = widths[i], widths[len(which)+i]
		if max(lo[k], hi[k], -lo[k], -hi[k]) > math.MaxInt32 || s[k]+min(lo[k], 0)+min(hi[k], 0) < 1 {
			badAttribute("widths %v of %v", widths, s)
		}
	}
	x := c.node(0)
	switch mode := c.attrText("mode", "constant"); mode {
	case "constant":
		x = c.padConstant(x, lo, hi, fill)
	case "edge", "reflect", "wrap":
		for k := range s {
			x = c.padFrom(x, mode, k, lo[k], hi[k])
		}
	default:
		refuse("mode %q", mode)
	}
	return c.one(x)
}

// padConstant pads with a number.
func (c *call) padConstant(x kernels.Value, lo, hi []int, fill float64) kernels.Value {
	s := c.Spec(x).Shape
	cut := whole(s)
	a := kernels.UnsliceAttrs{Shape: append(kernels.Shape{}, s...), Start: make([]int, len(s)), Step: cut.Step}
	padded := false
	for i, d := range s {
		cut.Start[i], cut.End[i] = max(0, -lo[i]), d-max(0, -hi[i])
		a.Start[i] = max(0, lo[i])
		a.Shape[i] = d + lo[i] + hi[i]
		if a.Shape[i] < 1 {
			badAttribute("widths %v and %v of %v", lo, hi, s)
		}
		padded = padded || lo[i] > 0 || hi[i] > 0
	}
	x = c.Apply(kernels.Slice, cut, x)
	if !padded {
		return x
	}
	ensure(kernels.Spec{Type: arena.Int64, Shape: a.Shape}.Check())
	y := c.Apply(kernels.Unslice, a, x)
	if fill == 0 {
		return y
	}
	one := c.expand(c.literal(arena.Float32, kernels.Shape{}, []float64{1}), c.Spec(x).Shape)
	return c.Apply(kernels.Where, nil, c.Apply(kernels.Unslice, a, one), y, c.scalar(x, fill))
}

// padFrom pads along an axis with elements of x.
func (c *call) padFrom(x kernels.Value, mode string, axis, lo, hi int) kernels.Value {
	x = c.slice(x, axis, max(0, -lo), c.Spec(x).Shape[axis]-max(0, -hi))
	lo, hi = max(0, lo), max(0, hi)
	if lo == 0 && hi == 0 {
		return x
	}
	d := c.Spec(x).Shape[axis]
	if d+lo+hi > c.b.limit {
		refuse("%d elements along axis %d: see Options.FoldElements", d+lo+hi, axis)
	}
	index := make([]int, d+lo+hi)
	for i := range index {
		p := i - lo
		switch {
		case mode == "edge":
			p = min(max(p, 0), d-1)
		case mode == "wrap":
			p = (p%d + d) % d
		case d == 1:
			p = 0
		default: // reflect, without the edge itself
			period := 2 * (d - 1)
			if p = (p%period + period) % period; p >= d {
				p = period - p
			}
		}
		index[i] = p
	}
	return c.pick(x, axis, index)
}

// blocks returns the size of a block, and the shape of an image.
func (c *call) blocks() (block int, s kernels.Shape) {
	block, s = c.attrInt("blocksize", 0), c.shape(0)
	if len(s) != 4 || block < 1 || block > math.MaxInt16 {
		badAttribute("blocks of %d in %v", block, s)
	}
	return block, s
}

// depthToSpace makes pixels of channels.
func depthToSpace(c *call) []*value {
	b, s := c.blocks()
	if s[1]%(b*b) != 0 {
		mismatch("%d channels in blocks of %d", s[1], b)
	}
	from, perm := kernels.Shape{s[0], b, b, s[1] / (b * b), s[2], s[3]}, []int{0, 3, 4, 1, 5, 2}
	switch mode := c.attrText("mode", "DCR"); mode {
	case "DCR":
	case "CRD":
		from, perm = kernels.Shape{s[0], s[1] / (b * b), b, b, s[2], s[3]}, []int{0, 1, 4, 2, 5, 3}
	default:
		refuse("mode %q", mode)
	}
	return c.one(c.reshape(c.transpose(c.reshape(c.node(0), from), perm), kernels.Shape{s[0], s[1] / (b * b), s[2] * b, s[3] * b}))
}

// spaceToDepth makes channels of pixels.
func spaceToDepth(c *call) []*value {
	b, s := c.blocks()
	if s[2]%b != 0 || s[3]%b != 0 {
		mismatch("an image of %v in blocks of %d", s, b)
	}
	perm := []int{0, 3, 5, 1, 2, 4}
	switch mode := c.attrText("mode", "DCR"); mode {
	case "DCR":
	case "CRD":
		perm = []int{0, 1, 3, 5, 2, 4}
	default:
		refuse("mode %q", mode)
	}
	y := c.transpose(c.reshape(c.node(0), kernels.Shape{s[0], s[1], s[2] / b, b, s[3] / b, b}), perm)
	return c.one(c.reshape(y, kernels.Shape{s[0], s[1] * b * b, s[2] / b, s[3] / b}))
}
