package layers_test

import (
	"fmt"
	"log"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// fed returns a net of float64, and an input x with the elements d.
func fed(d []float64, dims ...int) (*layers.Net, *gorgonia.Node) {
	n := layers.New(gorgonia.NewGraph())
	n.Type = tensor.Float64
	x := n.Input("x", dims...)
	if err := gorgonia.Let(x, tensor.New(tensor.WithShape(dims...), tensor.WithBacking(d))); err != nil {
		log.Fatal(err)
	}
	return n, x
}

// counted returns a net of float64, and an input 0, 1, 2, … of the given shape.
func counted(dims ...int) (*layers.Net, *gorgonia.Node) {
	return fed(count(tensor.Shape(dims).TotalSize()), dims...)
}

// printed runs the graph on Gorgonia's machine and prints shapes and elements of nodes.
func printed(n *layers.Net, nodes ...*gorgonia.Node) {
	if err := n.Err(); err != nil {
		log.Fatal(err)
	}
	into := make([]gorgonia.Value, len(nodes))
	for i, y := range nodes {
		gorgonia.Read(y, &into[i])
	}
	m := gorgonia.NewTapeMachine(nodes[0].Graph())
	defer m.Close()
	if err := m.RunAll(); err != nil {
		log.Fatal(err)
	}
	for i, y := range nodes {
		fmt.Println(y.Name(), y.Shape(), into[i].Data())
	}
}

// Every second column from 1 on, of the last two rows.
func ExampleNet_Slice() {
	n, x := counted(3, 5)
	printed(n, n.Slice(x, "part", layers.Range{Axis: 0, Start: 1, End: 3}, layers.Range{Axis: 1, Start: 1, End: 5, Step: 2}))
	// Output: part (2, 2) [6 8 11 13]
}

// A time step of a batch of two series.
func ExampleNet_At() {
	n, x := counted(2, 3, 2)
	printed(n, n.At(x, "step", 1, 2))
	// Output: step (2, 2) [4 5 10 11]
}

// The gates of an LSTM of two units.
func ExampleNet_Split() {
	n, x := counted(1, 8)
	printed(n, n.Split(x, "gates", 1, 2, 2, 2, 2)...)
	// Output:
	// gates 0 (1, 2) [0 1]
	// gates 1 (1, 2) [2 3]
	// gates 2 (1, 2) [4 5]
	// gates 3 (1, 2) [6 7]
}

func ExampleNet_Reshape() {
	n, x := counted(2, 6)
	printed(n, n.Reshape(x, "heads", 2, 3, -1))
	// Output: heads (2, 3, 2) [0 1 2 3 4 5 6 7 8 9 10 11]
}

func ExampleNet_Transpose() {
	n, x := counted(2, 3)
	printed(n, n.Transpose(x, "columns"))
	// Output: columns (3, 2) [0 3 1 4 2 5]
}

func ExampleNet_Repeat() {
	n, x := counted(2, 2)
	printed(n, n.Repeat(x, "wide", 1, 2))
	// Output: wide (2, 4) [0 0 1 1 2 2 3 3]
}

// Concat joins along an axis that there is, Stack along a new one.
func ExampleNet_Stack() {
	n, x := counted(3)
	y := n.Constant([]float64{7, 8, 9}, "y")
	pair := gorgonia.Nodes{x, y}
	printed(n, n.Concat(pair, "row", 0), n.Stack(pair, "columns", 1))
	// Output:
	// row (6) [0 1 2 7 8 9]
	// columns (3, 2) [0 7 1 8 2 9]
}

// Two masks that Gorgonia's own constants would print, and therefore treat, alike.
func ExampleNet_Constant() {
	n := layers.New(gorgonia.NewGraph())
	mask := func(masked int) *gorgonia.Node {
		d := make([]float64, 2*64)
		d[masked] = 1
		return n.Constant(d, "", 2, 64)
	}
	fmt.Println(mask(30) != mask(31), n.Err())
	// Output: true <nil>
}

// A logarithm that is 0 where there is none; the gradient of such an element is 0, too.
func ExampleNet_Where() {
	n, x := counted(3)
	zero, one := n.Constant(0.0, "zero"), n.Constant(1.0, "one")
	some := n.Greater(x, zero, "some")
	safe := n.Where(some, x, one, "safe")
	printed(n, n.Where(some, gorgonia.Must(gorgonia.Log(safe)), zero, "logarithm"))
	// Output: logarithm (3) [0 0 0.6931471805599453]
}

func ExampleNet_Cast() {
	n, x := fed([]float64{-1.5, 2.75}, 2)
	printed(n, n.Cast(x, "whole", tensor.Int))
	// Output: whole (2) [-1 2]
}

func ExampleNet_CumSum() {
	n, x := counted(2, 3)
	printed(n, n.CumSum(x, "sums", 1))
	// Output: sums (2, 3) [0 1 3 3 7 12]
}

func ExampleNet_TopK() {
	n, x := fed([]float64{3, 9, 4, 9, 1, 2}, 2, 3)
	values, index := n.TopK(x, "best", 1, 2)
	printed(n, values, index, n.ArgMax(x, "class", 1))
	// Output:
	// best (2, 2) [9 4 9 2]
	// best index (2, 2) [1 2 0 2]
	// class (2) [1 0]
}

// A layer after an error returns nil, and Gorgonia's functions panic on nil. The cause is in the graph.
func ExampleFailed() {
	g := gorgonia.NewGraph()
	defer func() {
		recover()
		fmt.Println(layers.Failed(g))
	}()
	n := layers.New(g)
	x := n.Input("x", 8, 20)
	half := n.Slice(x, "half", layers.Range{Axis: 1, Start: 10, End: 21})
	gorgonia.Must(gorgonia.Add(half, half))
	// Output: slice "half": range 10:21 of axis 1 of input (8, 20) must have 0 ≤ start < end ≤ 20: shapes do not fit
}

// A histogram of three bins over five numbers.
func ExampleNet_ScatterSum() {
	n, x := fed([]float64{0.1, 2.5, 0.7, 2.9, 1.0}, 5)
	bins := n.Cast(x, "bins", tensor.Int)
	printed(n, n.ScatterSum(bins, n.Constant(1.0, "", 5), "histogram", 3))
	// Output: histogram (3) [2 1 2]
}
