package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// lowerSparsemax lowers the projection of each lane along an axis onto the simplex, to Go code on the
// host: Gorgonia's own code is wrong along any axis but the last, and its gradient is wrong for any
// tensor but a matrix.
//
//	y = max(x - τ, 0), where τ is such that Σ y = 1
//	dx = m ⊙ (dy - Σ m ⊙ dy ÷ Σ m), where m is 1 for y > 0, else 0
//
// Source: Martins and Astudillo, From Softmax to Sparsemax, 2016, algorithm 1 and proposition 2.
func lowerSparsemax(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, err := fields{n.Op()}.Int("axis")
	if err != nil {
		return nil, err
	}
	t, err := typeOf(n)
	if err != nil {
		return nil, err
	}
	shape := shapeOf(n)
	if axis == -1 {
		axis = len(shape) - 1
	}
	if axis < 0 || axis >= len(shape) || !t.Float() {
		return nil, fmt.Errorf("sparsemax along axis %d of %v %v: %w", axis, t, shape, kernels.ErrShape)
	}
	spec := kernels.Spec{Type: t, Shape: shape}
	f := &hostFunc{node: n.Name(), name: "sparsemax", in: []kernels.Spec{spec}, out: spec,
		run: func(in [][]float64, out []float64) error {
			sparsemax(out, in[0], shape, axis)
			return nil
		},
		grad: func(g *Graph, n kernels.Node, dy kernels.Value) []kernels.Value {
			zero := g.Apply(kernels.Fill, kernels.FillAttrs{Type: t})
			mask := g.Apply(kernels.Greater, nil, n.Out[0], zero)
			along := kernels.ReduceAttrs{Axes: []int{axis}, Keep: true}
			sum := g.Apply(kernels.Sum, along, g.Apply(kernels.Mul, nil, mask, dy))
			mean := g.Apply(kernels.Div, nil, sum, g.Apply(kernels.Sum, along, mask))
			return []kernels.Value{g.Apply(kernels.Mul, nil, mask, g.Apply(kernels.Sub, nil, dy, mean))}
		}}
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		return applyHost(r.Builder, f, v[0]), nil
	}}, nil
}

// sparsemax computes y for each lane of x [outer, n, inner] along an axis of its shape.
func sparsemax(y, x []float64, shape kernels.Shape, axis int) {
	n, inner := shape[axis], shape[axis+1:].Elems()
	lane := make([]float64, n)
	for start := range len(x) / n {
		first := start/inner*n*inner + start%inner
		for i := range lane {
			lane[i] = x[first+i*inner]
		}
		slices.SortFunc(lane, func(a, b float64) int { // descending
			switch {
			case a > b:
				return -1
			case a < b:
				return 1
			}
			return 0
		})
		// The support is the longest prefix whose last element exceeds its own threshold. Differences to
		// the maximum keep the sum accurate.
		top, sum, tau := lane[0], 0.0, 0.0
		for k, v := range lane {
			sum += v - top
			if t := (sum - 1) / float64(k+1); v-top > t {
				tau = t
			}
		}
		for i := range n {
			at := first + i*inner
			y[at] = max(x[at]-top-tau, 0)
		}
	}
}
