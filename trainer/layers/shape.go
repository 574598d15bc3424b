package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Reshape adds the elements of x, in their order, in another shape. One of dims may be -1: it is
// computed from the others. No dims make a scalar of one element. The type stays; it is a view.
// A name may be empty.
func (n *Net) Reshape(x *gorgonia.Node, name string, dims ...int) *gorgonia.Node {
	layer := operation("reshape", name, x)
	if !n.operands(layer, x) {
		return nil
	}
	to, elems := slices.Clone(dims), x.Shape().TotalSize()
	free, known := -1, kernels.Spec{Type: storage[x.Dtype()]}
	for i, d := range dims {
		switch {
		case d == -1 && free < 0:
			free = i
		case d < 1:
			n.fail(fmt.Errorf("%s: dimensions %s must be 1 or more, one of them may be -1: %w", layer, shapeString(dims), ErrShape))
			return nil
		default:
			known.Shape = append(known.Shape, d)
		}
	}
	if err := known.Check(); err != nil {
		n.fail(fmt.Errorf("%s: %w", layer, err))
		return nil
	}
	if free >= 0 && elems%known.Shape.Elems() == 0 {
		to[free] = elems / known.Shape.Elems()
	} else if known.Shape.Elems() != elems || free >= 0 {
		n.fail(fmt.Errorf("%s: input %s has %d elements, which do not fit %s: %w", layer, shapeString(x.Shape()), elems, shapeString(dims), ErrShape))
		return nil
	}
	return n.view("reshape", name, x, to)
}

// view adds the elements of x in another shape of as many elements.
func (n *Net) view(what, name string, x *gorgonia.Node, to []int) *gorgonia.Node {
	return n.operate(what, name, kernels.Reshape, kernels.ReshapeAttrs{Shape: append(kernels.Shape{}, to...)}, x)
}

// Transpose adds x with its axes in another order: axis i of the result is axis axes[i] of x. No axes
// reverse the order. A name may be empty.
func (n *Net) Transpose(x *gorgonia.Node, name string, axes ...int) *gorgonia.Node {
	layer := operation("transpose", name, x)
	if !n.operands(layer, x) {
		return nil
	}
	perm := slices.Clone(axes)
	if len(axes) == 0 {
		for i := x.Dims() - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	for i, a := range perm {
		var ok bool
		if perm[i], ok = n.axisOf(layer, x, a); !ok {
			return nil
		}
	}
	return n.operate("transpose", name, kernels.Transpose, kernels.TransposeAttrs{Perm: perm}, x)
}

// Repeat adds x with each index of an axis count times in a row.
// x [2, 3], axis 1, count 2: columns 0 0 1 1 2 2. A name may be empty.
//
// Arithmetic with broadcasting needs no repeats.
func (n *Net) Repeat(x *gorgonia.Node, name string, axis, count int) *gorgonia.Node {
	layer := operation("repeat", name, x)
	if !n.operands(layer, x) {
		return nil
	}
	axis, ok := n.axisOf(layer, x, axis)
	if !ok {
		return nil
	}
	if count < 1 {
		n.fail(fmt.Errorf("%s: count %d must be 1 or more: %w", layer, count, ErrShape))
		return nil
	}
	// [.., d, ..] → [.., d, 1, ..] → [.., d, count, ..] → [.., d·count, ..]
	s := x.Shape()
	one, many, to := slices.Insert(slices.Clone(s), axis+1, 1), slices.Insert(slices.Clone(s), axis+1, count), slices.Clone(s)
	y := n.view("repeat", part(name, "one"), x, one)
	y = n.operate("repeat", part(name, "many"), kernels.Broadcast, kernels.BroadcastAttrs{Shape: kernels.Shape(many)}, y)
	to[axis] *= count // the broadcast has checked that it does not overflow
	return n.view("repeat", name, y, to)
}
