package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Embedding adds a table of rows and looks up the row of each index.
// index [B] or [B, T], integers → [B, dim] or [B, T, dim].
//
// The parameter is name/table [rows, dim]; it starts standard normal, or with Net.Weights. An index
// below 0 or above rows-1 ends a trainer's step with an error that names it; on Gorgonia's machines
// the result is zeros.
func (n *Net) Embedding(index *gorgonia.Node, name string, rows, dim int) *gorgonia.Node {
	layer := fmt.Sprintf("embedding %q", name)
	if !n.usable() {
		return nil
	}
	if err := n.checkNode(layer, "index", index); err != nil {
		n.fail(err)
		return nil
	}
	t, known := storage[index.Dtype()]
	switch shape := index.Shape(); {
	case name == "":
		n.fail(fmt.Errorf("embedding layer over %q has no name: %w", index.Name(), ErrName))
	case !known || t.Float():
		n.fail(fmt.Errorf("%s: index %q is of type %s, must be an integer type: use Indices: %w", layer, index.Name(), typeString(index.Dtype()), ErrShape))
	case len(shape) != 1 && len(shape) != 2:
		n.fail(fmt.Errorf("%s: index %s needs 1 or 2 dimensions, [batch] or [batch, length]: %w", layer, shapeString(shape), ErrShape))
	case rows < 1 || dim < 1:
		n.fail(fmt.Errorf("%s: table of %d rows of %d elements: both must be 1 or more: %w", layer, rows, dim, ErrShape))
	}
	if n.err != nil {
		return nil
	}
	var init Init = Normal{Std: 1}
	if n.Weights != nil {
		init = n.Weights
	}
	table := n.Param(name+"/table", init, rows, dim)
	if index.Dims() == 1 {
		return n.apply(layer, name+"/out", kernels.Gather, nil, table, index)
	}
	shape := index.Shape()
	flat := n.reshape(layer, name+"/index", index, shape.TotalSize())
	y := n.apply(layer, name+"/rows", kernels.Gather, nil, table, flat)
	return n.reshape(layer, name+"/out", y, shape[0], shape[1], dim)
}

// reshape adds a view of x.
func (n *Net) reshape(layer, name string, x *gorgonia.Node, dims ...int) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	y, err := gorgonia.Reshape(x, tensor.Shape(dims))
	return n.keep(layer, name, y, err)
}
