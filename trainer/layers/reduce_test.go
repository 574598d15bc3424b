package layers_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// reduction is a function of some elements in plain Go.
type reduction struct {
	name string
	code string // name of the method
	op   func(n *layers.Net, x *gorgonia.Node, name string, r layers.Reduce) *gorgonia.Node
	f    func(x []float64) float64
	fill func(r *rand.Rand, data []float64) // nil: standard normal
}

func sumOf(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

func meanOf(x []float64) float64 { return sumOf(x) / float64(len(x)) }

// reductions lists the reductions of package layers.
func reductions() []reduction {
	return []reduction{
		{"sum", "Sum", (*layers.Net).Sum, sumOf, nil},
		{"mean", "Mean", (*layers.Net).Mean, meanOf, nil},
		{"max", "Max", (*layers.Net).Max, func(x []float64) float64 { return slices.Max(x) }, quarters},
		{"min", "Min", (*layers.Net).Min, func(x []float64) float64 { return slices.Min(x) }, quarters},
		{"variance", "Variance", (*layers.Net).Variance, func(x []float64) float64 {
			m, sum := meanOf(x), 0.0
			for _, v := range x {
				sum += (v - m) * (v - m)
			}
			return sum / float64(len(x))
		}, nil},
		{"norm", "Norm", (*layers.Net).Norm, func(x []float64) float64 {
			sum := 0.0
			for _, v := range x {
				sum += v * v
			}
			return math.Sqrt(sum)
		}, nil},
		{"logsumexp", "LogSumExp", (*layers.Net).LogSumExp, func(x []float64) float64 {
			sum := 0.0
			for _, v := range x {
				sum += math.Exp(v)
			}
			return math.Log(sum)
		}, nil},
		{"prod", "Prod", (*layers.Net).Prod, func(x []float64) float64 {
			p := 1.0
			for _, v := range x {
				p *= v
			}
			return p
		}, nil},
	}
}

func reduceCases() (cases []opCase) {
	for _, c := range reductions() {
		for _, r := range []struct {
			layers.Reduce
			out  []int
			of   func(x []float64) [][]float64 // the elements of x [2, 5, 3] that become one
			name string
		}{
			{layers.Reduce{}, []int{}, func(x []float64) [][]float64 { return [][]float64{x} }, "of all"},
			{layers.Reduce{Axes: []int{1}}, []int{2, 3}, func(x []float64) (some [][]float64) {
				for i := range 6 {
					at := i/3*15 + i%3
					some = append(some, []float64{x[at], x[at+3], x[at+6], x[at+9], x[at+12]})
				}
				return some
			}, "in the middle"},
			{layers.Reduce{Axes: []int{-1, 1}, Keep: true}, []int{2, 1, 1}, func(x []float64) [][]float64 {
				return [][]float64{x[:15], x[15:]}
			}, "of the last two, kept"},
			{layers.Reduce{Axes: []int{0, 2}}, []int{5}, func(x []float64) (some [][]float64) {
				for i := range 5 {
					some = append(some, slices.Concat(x[3*i:3*i+3], x[15+3*i:18+3*i]))
				}
				return some
			}, "of the first and last"},
		} {
			cases = append(cases, opCase{name: c.name + " " + r.name, in: [][]int{{2, 5, 3}}, shape: r.out, fill: c.fill,
				build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return c.op(n, x[0], "", r.Reduce) },
				want: func(x [][]float64) (y []float64) {
					for _, some := range r.of(x[0]) {
						y = append(y, c.f(some))
					}
					return y
				}})
		}
	}
	return cases
}
