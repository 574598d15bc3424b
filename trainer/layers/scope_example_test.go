package layers_test

import (
	"fmt"
	"log"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// block is a part of a model.
func block(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	return n.Dense(x, "dense", 4, layers.Tanh)
}

func ExampleNet_Scope() {
	n, x := net(8, 4)
	enc := n.Scope("encoder")
	h := block(enc.Scope("1"), x)
	h = block(enc.Scope("2"), h)
	show(n, n.Dense(h, "out", 2, nil))
	fmt.Println(len(enc.Params()), "parameters of", len(n.Params()))
	// Output:
	// encoder/1/dense/w (4, 4)
	// encoder/1/dense/b (4)
	// encoder/2/dense/w (4, 4)
	// encoder/2/dense/b (4)
	// out/w (4, 2)
	// out/b (2)
	// output (8, 2)
	// 4 parameters of 6
}

// The two branches of a siamese net are one layer.
func ExampleNet_Shared() {
	n := layers.New(gorgonia.NewGraph())
	left, right := n.Input("left", 8, 20), n.Input("right", 8, 20)
	enc := n.Shared("encoder")
	a, b := enc.Dense(left, "dense", 10, layers.Tanh), enc.Dense(right, "dense", 10, layers.Tanh)
	loss := n.Contrastive(a, b, n.Input("alike", 8), 1, "loss/rows")
	show(n, loss)
	fmt.Println(a.Name(), "and", b.Name())
	// Output:
	// encoder/dense/w (20, 10)
	// encoder/dense/b (10)
	// output (8)
	// encoder/dense/act and encoder/dense/act 2
}

// A cell that is unrolled over three steps.
func ExampleNet_Shared_recurrent() {
	n, x := net(8, 3, 5)
	cell := n.Shared("cell")
	h := n.Constant(0.0, "start", 8, 4)
	for step := range 3 {
		both := n.Concat(gorgonia.Nodes{h, n.At(x, "", 1, step)}, "", 1)
		h = cell.Dense(both, "next", 4, layers.Tanh)
	}
	show(n, h)
	// Output:
	// cell/next/w (9, 4)
	// cell/next/b (4)
	// output (8, 4)
}

// The table of an embedding is the output projection, too.
func ExampleNet_Parameter() {
	n := layers.New(gorgonia.NewGraph())
	h := n.Embedding(n.Indices("words", 8), "words", 1000, 16)
	show(n, n.MatMul(h, n.Parameter("words/table"), "logits", layers.Transposed{B: true}))
	// Output:
	// words/table (1000, 16)
	// output (8, 1000)
}

// A second loss whose weight changes while the model trains.
func ExampleNet_Scalar() {
	n, x := net(8, 20)
	out := n.Dense(x, "out", 3, nil)
	second := n.Mul(n.AbsoluteError(out, n.Neg(out, ""), ""), n.Scalar("loss/balance", 0.1), "")
	m, err := n.Model(out, n.Add(n.SquaredError(out, n.Input("y", 8, 3), ""), second, "loss/rows"), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range m.Params {
		fmt.Println(p.Node.Name(), p.Node.Shape(), "frozen:", p.Frozen)
	}
	// Output:
	// out/w (20, 3) frozen: false
	// out/b (3) frozen: false
	// loss/balance () frozen: true
}
