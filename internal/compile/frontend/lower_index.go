package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Selection by indices.
//
//	byIndicesOp along axis 0  →  check_index, gather
//	            other axes    →  check_index, transpose, gather, transpose
//	byIndicesOpDiffOp         →  scatter, between the same transposes

// lowerByIndices lowers a selection along an axis.
func lowerByIndices(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, err := indexedAxis(n)
	if err != nil {
		return nil, err
	}
	return r.gather(n, axis), nil
}

// lowerByIndicesDiff lowers the gradient of a selection. Operands: x, dy and the indices; x is not
// needed.
func lowerByIndicesDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, err := indexedAxis(n)
	if err != nil {
		return nil, err
	}
	return &rule{in: children(n)[1:], build: func(v []kernels.Value) (kernels.Value, error) {
		x := shapeOf(n)
		dy := slices.Clone(x)
		dy[axis] = r.Spec(v[1]).Shape.Elems()
		rows := r.swapRows(r.reshape(v[0], dy), axis)
		return r.swapRowsBack(r.Apply(kernels.Scatter, kernels.ScatterAttrs{Rows: x[axis]}, r.flat(v[1]), rows), axis, x), nil
	}}, nil
}

// indexedAxis returns the axis along which n selects from its first operand.
func indexedAxis(n *gorgonia.Node) (int, error) {
	axis, err := fields{n.Op()}.Int("axis")
	if x := children(n)[0].Shape(); err == nil && axis >= len(x) {
		err = fmt.Errorf("selects along axis %d of %v: %w", axis, x, kernels.ErrShape)
	}
	return axis, err
}

// flat returns v as a vector.
func (r *reader) flat(v kernels.Value) kernels.Value {
	return r.reshape(v, kernels.Shape{r.Spec(v).Shape.Elems()})
}

// swapRows returns v [outer..., N, inner...] as [N, outer, inner], where N is the dimension of an
// axis. Along axis 0 it returns v.
func (r *reader) swapRows(v kernels.Value, axis int) kernels.Value {
	s := r.Spec(v).Shape
	if axis == 0 {
		return v
	}
	v = r.reshape(v, kernels.Shape{s[:axis].Elems(), s[axis], s[axis+1:].Elems()})
	return r.Apply(kernels.Transpose, kernels.TransposeAttrs{Perm: []int{1, 0, 2}}, v)
}

// swapRowsBack returns v [N, outer, inner] in shape [outer..., N, inner...], where N is the dimension
// of an axis.
func (r *reader) swapRowsBack(v kernels.Value, axis int, shape kernels.Shape) kernels.Value {
	if axis > 0 {
		v = r.Apply(kernels.Transpose, kernels.TransposeAttrs{Perm: []int{1, 0, 2}}, v)
	}
	return r.reshape(v, shape)
}

// gather returns the rule of a node that selects from its first operand, along an axis, by the
// indices in its second. An index out of range gives zeros and sets the status word to a code for this
// node (see ir.FirstIndices), so that the step updates nothing.
func (r *reader) gather(n *gorgonia.Node, axis int) *rule {
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		index, shape := r.flat(v[1]), slices.Clone(r.Spec(v[0]).Shape)
		if len(shape) > axis {
			x := ir.Indices{Node: n.Name(), Rows: shape[axis]}
			if f := r.fieldOf(children(n)[1]); f != "" {
				x.Field, x.Each = f, max(1, r.Spec(index).Shape.Elems()/max(1, r.Batch))
			}
			if err := r.checkIndex(index, x); err != nil {
				return kernels.None, err
			}
		}
		if axis == 0 {
			return r.Apply(kernels.Gather, nil, v[0], index), nil
		}
		shape[axis] = r.Spec(index).Shape[0]
		return r.swapRowsBack(r.Apply(kernels.Gather, nil, r.swapRows(v[0], axis), index), axis, shape), nil
	}}
}

// checkIndex appends the check that each index is a row of the x.Rows rows.
func (g *Graph) checkIndex(index kernels.Value, x ir.Indices) error {
	guard, err := g.Status()
	if err != nil {
		return err
	}
	// The position in g.Indices is in the code that the check leaves in the status word.
	a := kernels.CheckIndexAttrs{Rows: x.Rows, Code: ir.FirstIndices - int32(len(g.Indices))}
	g.Indices = append(g.Indices, x)
	g.Guard = g.Apply(kernels.CheckIndex, a, index, guard)
	return nil
}

// fieldOf returns the name of the batch's field that n is, or a reshape of; "" if it is none.
func (r *reader) fieldOf(n *gorgonia.Node) string {
	for ; n != nil; n = unwrap(n, "gorgonia.reshapeOp") {
		if in, ok := r.Inputs[n]; ok {
			return in.Field
		}
	}
	return ""
}
