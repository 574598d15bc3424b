package layers_test

import (
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// positive draws from [0.5, 2.5).
func positive(r *rand.Rand, data []float64) {
	for i := range data {
		data[i] = 0.5 + 2*r.Float64()
	}
}

// quarters draws different multiples of 1/4 that are no whole numbers, so that small steps pass none
// of the bounds of functions.
func quarters(r *rand.Rand, data []float64) {
	for i, p := range r.Perm(len(data)) {
		data[i] = float64(p-len(data)/2)/2 + 0.25
	}
}

// paired is f of the elements of a [2, 1, 3] and b [4, 1], which broadcast to [2, 4, 3].
func paired(f func(a, b float64) float64) func(x [][]float64) []float64 {
	return func(x [][]float64) (y []float64) {
		for i := range 2 {
			for j := range 4 {
				for k := range 3 {
					y = append(y, f(x[0][3*i+k], x[1][j]))
				}
			}
		}
		return y
	}
}

// binaryFunction is a function of two elements in plain Go.
type binaryFunction struct {
	name string
	code string // name of the method
	op   func(n *layers.Net, a, b *gorgonia.Node, name string) *gorgonia.Node
	f    func(a, b float64) float64
}

// binaryFunctions lists the arithmetic of package layers.
func binaryFunctions() []binaryFunction {
	return []binaryFunction{
		{"add", "Add", (*layers.Net).Add, func(a, b float64) float64 { return a + b }},
		{"sub", "Sub", (*layers.Net).Sub, func(a, b float64) float64 { return a - b }},
		{"mul", "Mul", (*layers.Net).Mul, func(a, b float64) float64 { return a * b }},
		{"div", "Div", (*layers.Net).Div, func(a, b float64) float64 { return a / b }},
		{"pow", "Pow", (*layers.Net).Pow, math.Pow},
		{"maximum", "Maximum", (*layers.Net).Maximum, func(a, b float64) float64 { return max(a, b) }},
		{"minimum", "Minimum", (*layers.Net).Minimum, func(a, b float64) float64 { return min(a, b) }},
	}
}

func arithmeticCases() (cases []opCase) {
	for _, c := range binaryFunctions() {
		build := func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return c.op(n, x[0], x[1], "") }
		swapped := func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return c.op(n, x[1], x[0], c.name) }
		scalar := func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return c.op(n, x[0], n.Reshape(x[1], ""), "") }
		cases = append(cases,
			opCase{name: c.name, in: [][]int{{2, 1, 3}, {4, 1}}, build: build, shape: []int{2, 4, 3}, want: paired(c.f), fill: positive},
			opCase{name: c.name + " swapped", in: [][]int{{2, 1, 3}, {4, 1}}, build: swapped, shape: []int{2, 4, 3},
				want: paired(func(a, b float64) float64 { return c.f(b, a) }), fill: positive},
			opCase{name: c.name + " of a scalar", in: [][]int{{3}, {1}}, build: scalar, shape: []int{3}, fill: positive,
				want: func(x [][]float64) []float64 {
					return []float64{c.f(x[0][0], x[1][0]), c.f(x[0][1], x[1][0]), c.f(x[0][2], x[1][0])}
				}},
		)
	}
	return cases
}
