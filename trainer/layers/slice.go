package layers

import (
	"fmt"
	"strconv"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Range selects the indices Start, Start+Step, … below End along an axis, as a slice expression of Go:
// 0 ≤ Start < End ≤ size of the axis.
type Range struct {
	Axis       int // below 0: counted from the last axis, which is -1
	Start, End int
	Step       int // at least 1; 0 means 1
}

// Slice adds the part of x that the ranges select; it is whole along axes without a range.
// x [...] → y, of x's rank and type. A name may be empty.
//
// Bounds are never counted from the end: a negative or empty range is an error. Slices are views where
// their elements are contiguous.
func (n *Net) Slice(x *gorgonia.Node, name string, ranges ...Range) *gorgonia.Node {
	layer := operation("slice", name, x)
	if !n.operands(layer, x) {
		return nil
	}
	a, seen := whole(x), make(map[int]bool)
	for _, r := range ranges {
		axis, ok := n.axisOf(layer, x, r.Axis)
		if !ok {
			return nil
		}
		if r.Step == 0 {
			r.Step = 1
		}
		switch size := x.Shape()[axis]; {
		case seen[axis]:
			n.fail(fmt.Errorf("%s: two ranges of axis %d: %w", layer, axis, ErrShape))
		case r.Start < 0 || r.Start >= r.End || r.End > size:
			n.fail(fmt.Errorf("%s: range %d:%d of axis %d of input %s must have 0 ≤ start < end ≤ %d: %w",
				layer, r.Start, r.End, axis, shapeString(x.Shape()), size, ErrShape))
		case r.Step < 1:
			n.fail(fmt.Errorf("%s: step %d of axis %d must be 1 or more: %w", layer, r.Step, axis, ErrShape))
		}
		if n.err != nil {
			return nil
		}
		seen[axis] = true
		a.Start[axis], a.End[axis], a.Step[axis] = r.Start, r.End, r.Step
	}
	return n.operate("slice", name, kernels.Slice, a, x)
}

// whole returns the attributes of the slice that is all of x.
func whole(x *gorgonia.Node) (a kernels.SliceAttrs) {
	for _, d := range x.Shape() {
		a.Start, a.End, a.Step = append(a.Start, 0), append(a.End, d), append(a.Step, 1)
	}
	return a
}

// At adds the part of x at an index of an axis, without that axis, such as a time step.
// x [B, T, F], axis 1 → [B, F]. 0 ≤ index < size of the axis. A name may be empty.
func (n *Net) At(x *gorgonia.Node, name string, axis, index int) *gorgonia.Node {
	layer := operation("at", name, x)
	if !n.operands(layer, x) {
		return nil
	}
	axis, ok := n.axisOf(layer, x, axis)
	if !ok {
		return nil
	}
	if size := x.Shape()[axis]; index < 0 || index >= size {
		n.fail(fmt.Errorf("%s: index %d of axis %d of input %s must be in 0..%d: %w", layer, index, axis, shapeString(x.Shape()), size-1, ErrShape))
		return nil
	}
	a := whole(x)
	a.Start[axis], a.End[axis] = index, index+1
	y := n.operate("at", part(name, "slice"), kernels.Slice, a, x)
	s := x.Shape()
	return n.view("at", name, y, append(s[:axis:axis], s[axis+1:]...))
}

// Split adds consecutive pieces of x along an axis. sizes are theirs, and add up to the size of the
// axis. It returns one node for each size, nil nodes after an error. Piece k is called `name k`; a name
// may be empty.
//
//	gates := net.Split(z, "gates", 1, units, units, units, units)
func (n *Net) Split(x *gorgonia.Node, name string, axis int, sizes ...int) gorgonia.Nodes {
	layer, parts := operation("split", name, x), make(gorgonia.Nodes, len(sizes))
	if !n.operands(layer, x) {
		return parts
	}
	axis, ok := n.axisOf(layer, x, axis)
	if !ok {
		return parts
	}
	sum := 0
	for _, s := range sizes {
		if s < 1 || s > x.Shape()[axis]-sum {
			sum = -1
			break
		}
		sum += s
	}
	if sum != x.Shape()[axis] {
		n.fail(fmt.Errorf("%s: sizes %v must be 1 or more and add up to the %d of axis %d of input %s: %w",
			layer, sizes, x.Shape()[axis], axis, shapeString(x.Shape()), ErrShape))
		return parts
	}
	start := 0
	for k, s := range sizes {
		a := whole(x)
		a.Start[axis], a.End[axis] = start, start+s
		start += s
		parts[k] = n.operate("split", part(name, strconv.Itoa(k)), kernels.Slice, a, x)
	}
	return parts
}
