package layers_test

import (
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// pick returns the elements of x at index(i, j, ...) for each index of a result of the given shape.
func pick(x []float64, from, to []int, index func(at []int) []int) []float64 {
	out := make([]float64, kernels.Shape(to).Elems())
	at := make([]int, len(to))
	for i := range out {
		k := 0
		for d, p := range index(slices.Clone(at)) {
			k = k*from[d] + p
		}
		out[i] = x[k]
		for d := len(to) - 1; d >= 0; d-- {
			if at[d]++; at[d] < to[d] {
				break
			}
			at[d] = 0
		}
	}
	return out
}

func sliceCases() []opCase {
	return []opCase{
		{name: "slice of columns", in: [][]int{{3, 5}}, shape: []int{3, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Slice(x[0], "columns", layers.Range{Axis: -1, Start: 1, End: 3})
			},
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{3, 5}, []int{3, 2}, func(at []int) []int { return []int{at[0], at[1] + 1} })
			}},
		{name: "slice of two axes with steps", in: [][]int{{5, 2, 7}}, shape: []int{2, 2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Slice(x[0], "", layers.Range{Axis: 2, Start: 1, End: 7, Step: 2}, layers.Range{Axis: 0, Start: 1, End: 5, Step: 3})
			},
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{5, 2, 7}, []int{2, 2, 3}, func(at []int) []int { return []int{1 + 3*at[0], at[1], 1 + 2*at[2]} })
			}},
		{name: "at a step", in: [][]int{{2, 4, 3}}, shape: []int{2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.At(x[0], "step", 1, 3) },
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{2, 4, 3}, []int{2, 3}, func(at []int) []int { return []int{at[0], 3, at[1]} })
			}},
		{name: "element of a vector", in: [][]int{{4}}, shape: []int{},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.At(x[0], "", 0, 2) },
			want:  func(x [][]float64) []float64 { return x[0][2:3] }},
		{name: "split and swapped", in: [][]int{{2, 6}}, shape: []int{2, 6},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				parts := n.Split(x[0], "parts", 1, 2, 3, 1)
				return n.Concat(gorgonia.Nodes{parts[2], parts[0], parts[1]}, "", -1)
			},
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{2, 6}, []int{2, 6}, func(at []int) []int { return []int{at[0], []int{5, 0, 1, 2, 3, 4}[at[1]]} })
			}},
	}
}
