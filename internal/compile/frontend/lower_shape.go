package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Ops that reduce, join, repeat and select.
//
//	sumOp, maxOp  →  the reduction; a sum of p ⊙ y, p a log-softmax  →  cross_entropy_dense
//	concatOp      →  concat
//	repeatOp      →  broadcast
//	sliceOp       →  slice
//	sliceIncrOp   →  unslice
//	atOp          →  slice of one element

// axesOf returns the axes of a reduction, sorted and distinct; nil for all.
func axesOf(n *gorgonia.Node) ([]int, error) {
	axes, err := fields{n.Op()}.Ints("along")
	if err != nil {
		return nil, err
	}
	slices.Sort(axes)
	axes = slices.Compact(axes)
	if len(axes) == 0 {
		return nil, nil
	}
	if dims := len(children(n)[0].Shape()); axes[0] < 0 || axes[len(axes)-1] >= dims {
		return nil, fmt.Errorf("axes %v of %d dimensions: %w", axes, dims, kernels.ErrShape)
	}
	return axes, nil
}

// lowerReduce lowers a reduction, which is f of integers.
func lowerReduce(r *reader, n *gorgonia.Node, f kernels.IntegerFunc) (*rule, error) {
	if t, err := typeOf(n); err != nil || !t.Float() {
		return lowerIntegerReduce(r, n, f)
	}
	return lowerDirect(r, n)
}

// lowerMax lowers a maximum.
func lowerMax(r *reader, n *gorgonia.Node) (*rule, error) {
	return lowerReduce(r, n, kernels.IntegerMax)
}

// lowerSum lowers a sum, and the cross entropy that is written as one.
func lowerSum(r *reader, n *gorgonia.Node) (*rule, error) {
	if e, ok := r.matchCrossEntropy(n); ok {
		return e.rule(r, -1), nil
	}
	return lowerReduce(r, n, kernels.IntegerAdd)
}

// lowerConcat lowers a concatenation; that of one operand is the operand.
func lowerConcat(r *reader, n *gorgonia.Node) (*rule, error) {
	in := children(n)
	if len(in) == 1 {
		return identity(in[0]), nil
	}
	attrs, err := kernels.Concat.Decode(fields{n.Op()})
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
		return r.Apply(kernels.Concat, attrs, r.alike(n, v)...), nil
	}}, err
}

// lowerRepeat lowers a repeat, each element k times along an axis, to a broadcast; the shapes give
// k. A dimension of size d > 1 is broadcast along a new axis after it: [.., d, ..] → [.., d, 1, ..]
// → [.., d, k, ..] → [.., d*k, ..].
func lowerRepeat(r *reader, n *gorgonia.Node) (*rule, error) {
	x := children(n)[0]
	along, err := fields{n.Op()}.Int("along")
	if err != nil {
		return nil, err
	}
	out := shapeOf(n)
	if o := unrepeat(n); o.node != n { // only dimensions of size 1 are repeated
		return &rule{in: gorgonia.Nodes{o.node}, build: func(v []kernels.Value) (kernels.Value, error) {
			y := r.alignTo(v[0], o.shape, out)
			if r.Spec(y).Shape.Equal(out) {
				return y, nil
			}
			return r.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: out}, y), nil
		}}, nil
	}
	in := padded(shapeOf(x), along)
	if len(in) != len(out) || in[along] == 0 || out[along]%in[along] != 0 {
		return nil, fmt.Errorf("repeats %v to %v along axis %d: %w", in, out, along, kernels.ErrShape)
	}
	// For k = 3 along axis 0: [2, 5] → [2, 1, 5] → [2, 3, 5], which toNodeShape makes [6, 5].
	k := out[along] / in[along]
	one, many := slices.Insert(slices.Clone(in), along+1, 1), slices.Insert(slices.Clone(in), along+1, k)
	return &rule{in: gorgonia.Nodes{x}, build: func(v []kernels.Value) (kernels.Value, error) {
		if k == 1 {
			return v[0], nil
		}
		return r.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: many}, r.reshape(v[0], one)), nil
	}}, nil
}

// sliceAttrsOf returns the range of each dimension of shape that a slicing op selects.
func sliceAttrsOf(op gorgonia.Op, shape kernels.Shape) (a kernels.SliceAttrs, err error) {
	for _, d := range shape {
		a.Start, a.End, a.Step = append(a.Start, 0), append(a.End, d), append(a.Step, 1)
	}
	s, ok := sliceOf(op)
	if !ok {
		return a, fmt.Errorf("%T has no slice: %w", op, errVersion)
	}
	if s == nil || s.End() <= s.Start() { // all of the axis
		return a, nil
	}
	axis, err := fields{op}.Int("along")
	if err != nil {
		return a, err
	}
	if axis < 0 || axis >= len(shape) || s.Start() < 0 || s.Start() >= shape[axis] {
		return a, fmt.Errorf("slice %d:%d along axis %d of %v: %w", s.Start(), s.End(), axis, shape, kernels.ErrShape)
	}
	a.Start[axis], a.End[axis], a.Step[axis] = s.Start(), min(s.End(), shape[axis]), max(s.Step(), 1)
	return a, nil
}

// lowerSlice lowers a slice along one axis. Gorgonia drops the axis where one row is left;
// toNodeShape does so afterwards.
func lowerSlice(r *reader, n *gorgonia.Node) (*rule, error) {
	x := children(n)[0]
	a, err := sliceAttrsOf(n.Op(), shapeOf(x))
	if err != nil {
		return nil, err
	}
	if slices.Equal(a.End, []int(shapeOf(x))) && slices.Max(a.Start) == 0 && slices.Max(a.Step) == 1 {
		return identity(x), nil
	}
	return r.applyRule(kernels.Slice, a, x), nil
}

// lowerSliceIncr lowers the gradient of a slice: a tensor of the first operand's shape, with the
// second operand at the place of the slice and zeros elsewhere.
func lowerSliceIncr(r *reader, n *gorgonia.Node) (*rule, error) {
	in := children(n)
	shape := shapeOf(in[0])
	a, err := sliceAttrsOf(n.Op(), shape)
	if err != nil {
		return nil, err
	}
	// Gorgonia drops an axis of size 1 from the slice: part has all axes.
	part := slices.Clone(shape)
	for i := range part {
		part[i] = (a.End[i] - a.Start[i] + a.Step[i] - 1) / a.Step[i]
	}
	return &rule{in: in[1:], build: func(v []kernels.Value) (kernels.Value, error) {
		attrs := kernels.UnsliceAttrs{Shape: shape, Start: a.Start, Step: a.Step}
		return r.Apply(kernels.Unslice, attrs, r.reshape(v[0], part)), nil
	}}, nil
}

// lowerAt lowers the selection of one element to a slice.
func lowerAt(r *reader, n *gorgonia.Node) (*rule, error) {
	at, err := fields{n.Op()}.Ints("coordinates")
	if err != nil {
		return nil, err
	}
	x := children(n)[0]
	a := kernels.SliceAttrs{Start: at}
	for i, shape := range shapeOf(x) {
		if i >= len(at) || at[i] < 0 || at[i] >= shape {
			return nil, fmt.Errorf("element %v of %v: %w", at, shapeOf(x), kernels.ErrShape)
		}
		a.End, a.Step = append(a.End, at[i]+1), append(a.Step, 1)
	}
	return r.applyRule(kernels.Slice, a, x), nil
}
