package compile

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// lowerByIndices reads rows by index; other axes fall back.
func lowerByIndices(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, err := fields{n.Op()}.Int("axis")
	if err != nil || axis != 0 {
		return nil, err
	}
	return r.gather(n), nil
}

// gather is the rule of rows of its first operand by indices, its second. An index outside gives zeros, and the
// guard its place, so that nothing of the step is applied.
func (r *reader) gather(n *gorgonia.Node) *rule {
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		index := r.reshape(v[1], kernels.Shape{r.Spec(v[1]).Shape.Elems()})
		if data := r.Spec(v[0]).Shape; len(data) > 0 {
			x := ir.Indices{Node: n.Name(), Rows: data[0]}
			if r.ofField(children(n)[1]) {
				x.Each = max(1, r.Spec(index).Shape.Elems()/max(1, r.Batch))
			}
			if err := r.checkIndex(index, x); err != nil {
				return kernels.None, err
			}
		}
		return r.Apply(kernels.Gather, nil, v[0], index), nil
	}}
}

// checkIndex appends the check of indices x.
func (c *compiler) checkIndex(index kernels.Value, x ir.Indices) error {
	guard, err := c.Status()
	if err != nil {
		return err
	}
	a := kernels.CheckIndexAttrs{Rows: x.Rows, Code: ir.FirstIndices - int32(len(c.Indices))}
	c.Indices = append(c.Indices, x)
	c.Guard = c.Apply(kernels.CheckIndex, a, index, guard)
	return nil
}

// ofField reports whether n is a field of the data, as it is or reshaped.
func (r *reader) ofField(n *gorgonia.Node) bool {
	for ; n != nil; n = behind(n, "gorgonia.reshapeOp") {
		if r.isField(n) {
			return true
		}
	}
	return false
}
