package frontend

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Selection by indices.
//
//	byIndicesOp along axis 0  →  check_index, gather
//	            other axes    →  a fallback

// lowerByIndices lowers a selection along axis 0 to a gather of rows; other axes fall back.
func lowerByIndices(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, err := fields{n.Op()}.Int("axis")
	if err != nil || axis != 0 {
		return nil, err
	}
	return r.gather(n), nil
}

// gather returns the rule of a node that selects rows of its first operand by the indices in its
// second. An index out of range gives a row of zeros and sets the status word to a code for this
// node (see ir.FirstIndices), so that the step updates nothing.
func (r *reader) gather(n *gorgonia.Node) *rule {
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		index := r.reshape(v[1], kernels.Shape{r.Spec(v[1]).Shape.Elems()})
		if data := r.Spec(v[0]).Shape; len(data) > 0 {
			x := ir.Indices{Node: n.Name(), Rows: data[0]}
			if f := r.fieldOf(children(n)[1]); f != "" {
				x.Field, x.Each = f, max(1, r.Spec(index).Shape.Elems()/max(1, r.Batch))
			}
			if err := r.checkIndex(index, x); err != nil {
				return kernels.None, err
			}
		}
		return r.Apply(kernels.Gather, nil, v[0], index), nil
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
