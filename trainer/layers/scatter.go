package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// ScatterSum adds rows of zeros, and to the row of each index the row of x: a histogram, if the rows
// of x are counts or weights.
//
//	index [R], integers, x [R, ...], floats  →  [rows, ...], y[index[i]] += x[i] in the order of i
//
// An index outside 0..rows-1 is left out. The gradient of x is the rows of dy by index. A name may be
// empty.
func (n *Net) ScatterSum(index, x *gorgonia.Node, name string, rows int) *gorgonia.Node {
	layer := operation("scatter sum", name, x)
	if !n.operands(layer, index, x) || !n.floats(layer, x) {
		return nil
	}
	if rows < 1 {
		n.fail(fmt.Errorf("%s: %d rows: there must be 1 or more: %w", layer, rows, ErrShape))
		return nil
	}
	if t := index.Dtype(); storage[t].Float() {
		n.fail(fmt.Errorf("%s: index %q is of type %s, must be an integer type: use Cast: %w", layer, index.Name(), typeString(t), ErrShape))
		return nil
	}
	return n.operate("scatter sum", name, kernels.Scatter, kernels.ScatterAttrs{Rows: rows}, index, x)
}
