package layers_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// A regression whose outliers count less.
func ExampleNet_Model() {
	n, x := net(8, 20)
	out := n.Dense(n.Dense(x, "hidden", 10, layers.ReLU), "out", 2, nil)
	m, err := n.Model(out, n.Huber(out, n.Input("y", 8, 2), 1, "loss/rows"), nil)
	fmt.Println(len(m.Inputs), len(m.Params), m.Loss.Shape(), err)
	// Output: 2 4 () <nil>
}

// Errors of 1 and 10: half the square of the first, a straight line for the second.
func ExampleNet_Huber() {
	n, x := fed([]float64{1, 10}, 2, 1)
	printed(n, n.Huber(x, n.Constant(0.0, "", 2, 1), 2, "huber"))
	// Output: huber (2) [0.5 18]
}

// Three questions to one sample; the last answer is certain and right.
func ExampleNet_BinaryCrossEntropy() {
	n, x := fed([]float64{0, 0, -1000}, 1, 3)
	printed(n, n.BinaryCrossEntropy(x, n.Constant([]float64{1, 0, 0}, "", 1, 3), nil, "loss"))
	// Output: loss (1) [0.46209812037329684]
}

// The second class counts ten times as much as the first.
func ExampleNet_ClassWeights() {
	n, x := fed([]float64{3, 0, 0, 3, 0, 0}, 3, 2)
	labels := n.Constant([]int{0, 1, 1}, "")
	printed(n, n.MultiHinge(x, labels, 1, "losses"), n.ClassWeights(labels, []float64{1, 10}, "weights"))
	// Output:
	// losses (3) [0 0 0.5]
	// weights (3) [1 10 10]
}

// Pairs of equal, opposite and orthogonal vectors.
func ExampleNet_CosineSimilarity() {
	n, x := fed([]float64{1, 0, 2, 0, 3, 0}, 3, 2)
	printed(n, n.CosineSimilarity(x, n.Constant([]float64{1, 0, -1, 0, 0, 1}, "", 3, 2), "cos"))
	// Output: cos (3) [1 -1 0]
}
