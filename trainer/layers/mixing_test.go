package layers_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// mixed is mixup of rows of some elements in plain Go.
func mixed(elements int) func(x [][]float64) []float64 {
	return func(x [][]float64) (y []float64) {
		for i, v := range x[0] {
			m := x[2][i/elements]
			y = append(y, m*v+(1-m)*x[1][i])
		}
		return y
	}
}

// cutMixed is CutMix of [2, 2, 3, 4] in plain Go.
func cutMixed(x [][]float64) (y []float64) {
	for i, v := range x[0] {
		column, row, b := float64(i%4), float64(i/4%3), x[2][i/24*4:]
		if row >= b[0] && row < b[2] && column >= b[1] && column < b[3] {
			v = x[1][i]
		}
		y = append(y, v)
	}
	return y
}

// corners draws rectangles of [3, 4] whose edges are no whole numbers, and images.
func corners(r *rand.Rand, data []float64) {
	for i := range data {
		data[i] = r.NormFloat64()
	}
	if len(data) == 8 {
		copy(data, []float64{-0.5, 0.25, 1.5, 2.75, 1.25, 1.75, 2.5, 4.5})
	}
}

func mixingCases() []opCase {
	mixup := func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Mixup(x[0], x[1], x[2], "m") }
	return []opCase{
		{name: "mixup", in: [][]int{{3, 2, 2}, {3, 2, 2}, {3}}, build: mixup, shape: []int{3, 2, 2}, want: mixed(4)},
		{name: "mixup of losses", in: [][]int{{3}, {3}, {3, 1}}, build: mixup, shape: []int{3}, want: mixed(1)},
		{name: "cutmix", in: [][]int{{2, 2, 3, 4}, {2, 2, 3, 4}, {2, 4}}, shape: []int{2, 2, 3, 4}, want: cutMixed, fill: corners,
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.CutMix(x[0], x[1], x[2], "") }},
		{name: "standardize", in: [][]int{{2, 3, 2}}, shape: []int{2, 3, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Standardize(x[0], "", 1, []float64{1, -2, 0.5}, []float64{2, 4, 0.25})
			},
			want: func(x [][]float64) (y []float64) {
				for i, v := range x[0] {
					c := i / 2 % 3
					y = append(y, (v-[]float64{1, -2, 0.5}[c])/[]float64{2, 4, 0.25}[c])
				}
				return y
			}},
	}
}

func TestMixingOfOperandsThatDoNotFitIsAnError(t *testing.T) {
	for want, build := range map[string]func(n *layers.Net){
		"one shape [B":  func(n *layers.Net) { n.Mixup(n.Input("x", 2, 3), n.Input("p", 2, 4), n.Input("m", 2), "") },
		"of the 2 rows": func(n *layers.Net) { n.Mixup(n.Input("x", 2, 3), n.Input("p", 2, 3), n.Input("m", 3), "") },
		"the box [B, 4]": func(n *layers.Net) {
			n.CutMix(n.Input("x", 2, 1, 3, 3), n.Input("p", 2, 1, 3, 3), n.Input("b", 2, 3), "")
		},
		"[B, C, H, W]":        func(n *layers.Net) { n.CutMix(n.Input("x", 2, 3), n.Input("p", 2, 3), n.Input("b", 2, 4), "") },
		"for every index":     func(n *layers.Net) { n.Standardize(n.Input("x", 2, 3), "", 1, []float64{1}, []float64{1}) },
		"deviation above 0":   func(n *layers.Net) { n.Standardize(n.Input("x", 2, 1), "", 1, []float64{1}, []float64{0}) },
		"axis 2 of":           func(n *layers.Net) { n.Standardize(n.Input("x", 2, 1), "", 2, []float64{1}, []float64{1}) },
		"mean 0 is NaN and d": func(n *layers.Net) { n.Standardize(n.Input("x", 2, 1), "", 1, []float64{nan()}, []float64{1}) },
	} {
		n := layers.New(gorgonia.NewGraph())
		build(n)
		if err := n.Err(); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, layers.ErrShape) && !errors.Is(err, kernels.ErrAttrs) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

// nan returns NaN.
func nan() float64 {
	zero := 0.0
	return zero / zero
}
