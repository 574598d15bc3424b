package layers_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

func compareCases() []opCase {
	compare := func(name string, add func(n *layers.Net, a, b *gorgonia.Node, name string) *gorgonia.Node, holds func(a, b float64) bool) opCase {
		return opCase{name: name, in: [][]int{{2, 3}, {3}}, shape: []int{2, 3}, flat: true,
			fill: func(r *rand.Rand, d []float64) {
				for i := range d {
					d[i] = float64(r.IntN(3))
				}
			},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return add(n, x[0], x[1], "") },
			want: func(x [][]float64) []float64 {
				y := make([]float64, 6)
				for i := range y {
					if holds(x[0][i], x[1][i%3]) {
						y[i] = 1
					}
				}
				return y
			}}
	}
	return []opCase{
		compare("less", (*layers.Net).Less, func(a, b float64) bool { return a < b }),
		compare("less or equal", (*layers.Net).LessEqual, func(a, b float64) bool { return a <= b }),
		compare("greater", (*layers.Net).Greater, func(a, b float64) bool { return a > b }),
		compare("greater or equal", (*layers.Net).GreaterEqual, func(a, b float64) bool { return a >= b }),
		compare("equal", (*layers.Net).Equal, func(a, b float64) bool { return a == b }),
		compare("not equal", (*layers.Net).NotEqual, func(a, b float64) bool { return a != b }),
		{name: "where", in: [][]int{{2, 3}, {2, 3}, {3}}, shape: []int{2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Where(n.Constant([]bool{true, false}, "", 2, 1), x[0], gorgonia.Must(gorgonia.Add(x[1], x[0])), "")
			},
			want: func(x [][]float64) []float64 {
				y := slices.Clone(x[0])
				for i := 3; i < 6; i++ {
					y[i] += x[1][i]
				}
				return y
			}},
		{name: "where of rows and a number", in: [][]int{{2, 2}, {2}}, shape: []int{2, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Where(n.Constant([]float64{0, 1, -1, math.NaN()}, "", 2, 2), x[1], n.At(x[0], "", 0, 1), "")
			},
			want: func(x [][]float64) []float64 { return []float64{x[0][2], x[1][1], x[1][0], x[1][1]} }},
		{name: "where what is not chosen is not finite", in: [][]int{{3}}, shape: []int{3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				odd := n.Constant([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}, "")
				return n.Where(n.Constant(0.0, ""), odd, n.Where(n.Constant(1.0, ""), x[0], odd, ""), "")
			},
			want: func(x [][]float64) []float64 { return slices.Clone(x[0]) }},
	}
}
