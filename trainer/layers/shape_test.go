package layers_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

func shapeCases() []opCase {
	return []opCase{
		{name: "reshape", in: [][]int{{3, 4}}, shape: []int{2, 2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Reshape(x[0], "r", 2, -1, 3) },
			want:  func(x [][]float64) []float64 { return x[0] }},
		{name: "reshape to a scalar", in: [][]int{{1, 1}}, shape: []int{},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Reshape(x[0], "") },
			want:  func(x [][]float64) []float64 { return x[0] }},
		{name: "transpose", in: [][]int{{2, 3, 4}}, shape: []int{4, 2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Transpose(x[0], "", -1, 0, 1) },
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{2, 3, 4}, []int{4, 2, 3}, func(at []int) []int { return []int{at[1], at[2], at[0]} })
			}},
		{name: "transpose of a matrix", in: [][]int{{2, 3}}, shape: []int{3, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Transpose(x[0], "t") },
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{2, 3}, []int{3, 2}, func(at []int) []int { return []int{at[1], at[0]} })
			}},
		{name: "repeat", in: [][]int{{2, 3}}, shape: []int{2, 6},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Repeat(x[0], "", 1, 2) },
			want: func(x [][]float64) []float64 {
				return pick(x[0], []int{2, 3}, []int{2, 6}, func(at []int) []int { return []int{at[0], at[1] / 2} })
			}},
		{name: "concat", in: [][]int{{2, 1, 3}, {2, 4, 3}, {2, 2, 3}}, shape: []int{2, 7, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Concat(x, "all", 1) },
			want: func(x [][]float64) []float64 {
				var y []float64
				for b := range 2 {
					y = slices.Concat(y, x[0][b*3:b*3+3], x[1][b*12:b*12+12], x[2][b*6:b*6+6])
				}
				return y
			}},
		{name: "stack", in: [][]int{{2, 3}, {2, 3}}, shape: []int{2, 2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Stack(x, "both", 1) },
			want: func(x [][]float64) []float64 {
				return slices.Concat(x[0][:3], x[1][:3], x[0][3:], x[1][3:])
			}},
		{name: "stack at the end", in: [][]int{{3}, {3}}, shape: []int{3, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Stack(x, "", -1) },
			want: func(x [][]float64) []float64 {
				return []float64{x[0][0], x[1][0], x[0][1], x[1][1], x[0][2], x[1][2]}
			}},
		{name: "cast", in: [][]int{{2, 3}}, shape: []int{2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Cast(n.Cast(x[0], "there", tensor.Float64), "back", x[0].Dtype())
			},
			want: func(x [][]float64) []float64 { return x[0] }},
		{name: "cast to integers", in: [][]int{{8}}, shape: []int{8}, flat: true,
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Cast(n.Cast(x[0], "", tensor.Int), "", x[0].Dtype())
			},
			fill: func(_ *rand.Rand, d []float64) {
				copy(d, []float64{-0.5, 2.75, -3.25, 1e6 + 0.5, -0x1p62, 0x1p40, -1, 0})
			},
			want: func(x [][]float64) []float64 {
				return []float64{0, 2, -3, 1e6, -0x1p62, 0x1p40, -1, 0}
			}},
		{name: "cast of numbers beyond integers", in: [][]int{{1}}, shape: []int{6},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				beyond := n.Constant([]float64{math.Inf(1), math.Inf(-1), math.NaN(), 1e30, -1e30}, "")
				y := gorgonia.Must(gorgonia.HadamardProd(n.Cast(n.Cast(beyond, "", tensor.Int), "", x[0].Dtype()), n.Constant(0x1p-63, "", 5)))
				return n.Concat(gorgonia.Nodes{y, x[0]}, "", 0)
			},
			want: func(x [][]float64) []float64 {
				return []float64{1, -1, 0, 1, -1, x[0][0]}
			}},
	}
}
