package layers_test

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

func constantCases() []opCase {
	return []opCase{
		{name: "constant", in: [][]int{{2, 2}}, shape: []int{2, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return gorgonia.Must(gorgonia.HadamardProd(n.Constant([]float32{1, -2, 0.5, 4}, "c", 2, 2), x[0]))
			},
			want: func(x [][]float64) []float64 {
				return []float64{x[0][0], -2 * x[0][1], 0.5 * x[0][2], 4 * x[0][3]}
			}},
		{name: "constant of one number", in: [][]int{{3}}, shape: []int{3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return gorgonia.Must(gorgonia.Sub(x[0], n.Constant(2.5, "", 3)))
			},
			want: func(x [][]float64) []float64 { return []float64{x[0][0] - 2.5, x[0][1] - 2.5, x[0][2] - 2.5} }},
	}
}
