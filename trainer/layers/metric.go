package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Metric is a number that a pass measures: sums over the rows of each batch, computed on the device,
// and a function of their totals. Package metrics has constructors of the usual ones.
type Metric struct {
	// Name identifies the metric in the results of a pass. Required; no other metric of the model has
	// it.
	Name string
	// Sum has one or more numbers, each of them a sum over the rows of the batch. Its shape does not
	// depend on the number of rows; its type is a float or an integer. The host adds up the sums of
	// all steps of a pass in float64. Model.Weight has no effect on it: multiply what is summed by the
	// weights where they are meant to count, as the constructors of package metrics do. Several
	// metrics may have the same node. Required.
	Sum *gorgonia.Node
	// Value returns the metric from the totals of a pass, one number for each element of Sum. It is
	// called once a pass and must neither keep nor change its argument. Nil: the total of a Sum of one
	// element, divided by the number of samples; NaN for other shapes, whose totals are the result.
	Value func(sum []float64) float64
}

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
	if t := index.Dtype(); t == tensor.Float32 || t == tensor.Float64 {
		n.fail(fmt.Errorf("%s: index %q is of type %s, must be an integer type: use Cast: %w", layer, index.Name(), typeString(t), ErrShape))
		return nil
	}
	return n.operate("scatter sum", name, kernels.Scatter, kernels.ScatterAttrs{Rows: rows}, index, x)
}
