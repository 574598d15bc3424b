package layers_test

import (
	"fmt"
	"log"
	"math"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Rows are scaled by a column, and a vector is added to each: shapes broadcast.
func ExampleNet_Add() {
	n, x := net(8, 20)
	scale := n.Param("scale", layers.Ones{}, 8, 1)
	shift := n.Param("shift", layers.Zeros{}, 20)
	show(n, n.Add(n.Mul(x, scale, ""), shift, "shifted"))
	// Output:
	// scale (8, 1)
	// shift (20)
	// output (8, 20)
}

// The standard score of each feature over the batch.
func ExampleNet_Variance() {
	n, x := net(8, 20)
	rows := layers.Reduce{Axes: []int{0}, Keep: true}
	centred := n.Sub(x, n.Mean(x, "", rows), "")
	deviation := n.Sqrt(n.Affine(n.Variance(x, "", rows), "", 1, 1e-5), "")
	show(n, n.Div(centred, deviation, "score"))
	// Output: output (8, 20)
}

// Scaled dot-product attention of 4 heads over 10 positions: q, k and v are [batch, heads, positions,
// features].
func ExampleNet_MatMul() {
	n, q := net(8, 4, 10, 16)
	k, v := n.Input("k", 8, 4, 10, 16), n.Input("v", 8, 4, 10, 16)
	scores := n.MatMul(q, k, "scores", layers.Transposed{B: true})
	share := n.Softmax(n.Affine(scores, "", 1/math.Sqrt(16), 0), "share")
	show(n, n.MatMul(share, v, "attended", layers.Transposed{}))
	// Output: output (8, 4, 10, 16)
}

// The same scores, of inputs [batch, positions, heads, features]: a letter names each axis.
func ExampleNet_Einsum() {
	n, q := net(8, 10, 4, 16)
	k := n.Input("k", 8, 10, 4, 16)
	show(n, n.Einsum("bqhf,bkhf->bhqk", "scores", q, k))
	// Output: output (8, 4, 10, 10)
}

// An operation that does not fit is an error of the net, which says what to do.
func ExampleNet_Einsum_error() {
	n, x := net(8, 10)
	n.Einsum("...i->i", "sum", x)
	fmt.Println(n.Err())
	// Output: einsum "sum": "...i->i" has an ellipsis: give each axis a letter: attributes do not fit
}

// Sums of the rows, and of all elements.
func ExampleNet_Sum() {
	n, x := net(2, 3)
	rows := n.Sum(x, "rows", layers.Reduce{Axes: []int{-1}})
	all := n.Sum(rows, "all", layers.Reduce{})
	if n.Err() != nil {
		log.Fatal(n.Err())
	}
	fmt.Println(rows.Shape(), all.Shape())
	// Output: (2) ()
}

// A layer with the activation of GPT-2, and one with ReLU6.
func ExampleGELUTanh() {
	n, x := net(8, 20)
	h := n.Dense(x, "hidden", 80, layers.GELUTanh)
	show(n, n.Dense(h, "out", 20, layers.Clamp(0, 6)))
	// Output:
	// hidden/w (20, 80)
	// hidden/b (80)
	// out/w (80, 20)
	// out/b (20)
	// output (8, 20)
}

// Functions of elements are methods, and activations as method expressions.
func ExampleNet_Exp() {
	n, x := net(8, 20)
	var act layers.Activation = (*layers.Net).Exp
	show(n, n.Add(n.Exp(x, ""), act(n, x, "again"), ""))
	// Output: output (8, 20)
}
