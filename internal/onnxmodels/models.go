// Package onnxmodels is a set of small models for tests of export: one or more for each operation
// that an ONNX file can hold, and networks of common styles.
package onnxmodels

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// A Model is one of the set.
type Model struct {
	Name string
	// Build adds the model to a graph. It is a trainer.ModelFunc.
	Build func(g *gorgonia.ExprGraph, batch int) (layers.Model, error)
	// Classes bounds the integers that its inputs may hold.
	Classes int
	// Mixes: a row of the output depends on other rows.
	Mixes bool
	// Fields describes how the inputs are stored; nil: as the nodes are.
	Fields []dataloader.Field
}

// function adds nodes to a net, whose inputs it makes, and returns the output.
type function func(n *layers.Net, batch int) *gorgonia.Node

// of returns a model that predicts what f returns.
func of(name string, f function) Model {
	return Model{Name: name, Classes: 4, Build: func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		n := layers.New(g)
		out := f(n, batch)
		return layers.Model{Inputs: n.Inputs(), Output: out, Params: n.Params(), Statistics: n.Statistics()}, n.Err()
	}}
}

// All returns the models, sorted by their names, which are distinct.
func All() []Model {
	all := append(elementwise(), shapes()...)
	all = append(all, products()...)
	all = append(all, reductions()...)
	all = append(all, operations()...)
	all = append(all, examples()...)
	for _, n := range nets.Small() {
		all = append(all, Model{Name: n.Name, Build: n.Model, Classes: 10})
	}
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Named returns the model of a name.
func Named(name string) Model {
	all := All()
	return all[slices.IndexFunc(all, func(m Model) bool { return m.Name == name })]
}

// Weights returns the same random elements for the same name: small ones, and above 0 for a
// variance.
func Weights(name string, n int) []float32 {
	seed := uint64(len(name))
	for _, c := range name {
		seed = seed*31 + uint64(c)
	}
	r := rand.New(rand.NewPCG(seed, 7))
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = float32(0.4 * r.NormFloat64())
		if strings.HasSuffix(name, "variance") {
			xs[i] = float32(0.5 + math.Abs(float64(xs[i])))
		}
	}
	return xs
}

// examples are the networks of the programs in examples, narrower.
func examples() []Model {
	return []Model{
		of("mlp", func(n *layers.Net, batch int) *gorgonia.Node {
			h := n.Dense(n.Input("x", batch, 49), "hidden1", 32, layers.ReLU)
			return n.Dense(n.Dense(h, "hidden2", 16, layers.ReLU), "out", 10, nil)
		}),
		of("cnn", func(n *layers.Net, batch int) *gorgonia.Node {
			filters, halve := layers.Conv2D{Out: 4, Kernel: layers.Square(3), Pad: layers.Square(1)}, layers.Pool{Kernel: layers.Square(2)}
			h := n.MaxPool(n.Conv(n.Input("x", batch, 1, 28, 28), "conv1", filters, layers.ReLU), "pool1", halve)
			filters.Out = 8
			h = n.MaxPool(n.Conv(h, "conv2", filters, layers.ReLU), "pool2", halve)
			h = n.Dense(n.Flatten(h, "flat"), "hidden", 16, layers.ReLU)
			return n.Dense(n.Dropout(h, "dropout", 0.25), "out", 10, nil)
		}),
		of("autoencoder", func(n *layers.Net, batch int) *gorgonia.Node {
			h := n.Dense(n.Input("x", batch, 49), "encode", 16, layers.ReLU)
			return n.Dense(n.Dense(h, "code", 4, nil), "out", 49, layers.Sigmoid)
		}),
		{Name: "gan", Build: gan},
		{Name: "pixels", Classes: 256, Fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{9}, Scale: 1. / 255, Shift: -0.5}},
			Build: of("", func(n *layers.Net, batch int) *gorgonia.Node {
				return n.Dense(n.Flatten(n.Input("x", batch, 3, 3), "flat"), "out", 2, nil)
			}).Build},
		of("norms and activations", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Conv(n.Input("x", batch, 3, 8, 8), "conv", layers.Conv2D{Out: 8, Kernel: layers.Square(3)}, layers.SiLU)
			x = n.GroupNorm(n.BatchNorm(x, "batch", layers.LeakyReLU(0.1)), "group", 2)
			x = n.GroupNorm(n.AvgPool(x, "pool", layers.Pool{Kernel: layers.Square(2)}), "instance", 8)
			return n.LayerNorm(n.Flatten(x, "flat"), "layer")
		}),
		of("batch norm of rows", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.BatchNorm(n.Input("x", batch, 5), "norm", layers.ReLU)
		}),
		of("embedding", func(n *layers.Net, batch int) *gorgonia.Node {
			rows := n.Embedding(n.Indices("words", batch, 3), "table", 4, 6)
			return n.Mean(rows, "mean", layers.Reduce{Axes: []int{1}})
		}),
		of("outputs", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 4)
			return n.Softmax(n.Dense(x, "dense", 3, nil), "output")
		}),
	}
}

// gan predicts what its generator makes; its discriminator is not exported.
func gan(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	n := layers.New(g)
	x, z := n.Input("x", batch, 20), n.Input("z", batch, 6)
	digits := n.Dense(n.Dense(z, "generator/hidden", 12, layers.ReLU), "generator/out", 20, layers.Sigmoid)
	d := n.Shared("discriminator")
	real, made := d.Dense(x, "out", 1, nil), d.Dense(digits, "out", 1, nil)
	loss := n.Mean(n.Sub(made, real, "margin"), "loss", layers.Reduce{})
	m := layers.Model{Inputs: n.Inputs(), Output: digits, Outputs: gorgonia.Nodes{made}, Params: n.Params()}
	m.Objectives = []layers.Objective{
		{Name: "discriminator", Params: []string{"discriminator/"}, Loss: loss},
		{Name: "generator", Params: []string{"generator/"}, Loss: n.Mean(n.Sub(real, made, "distance"), "generated", layers.Reduce{})},
	}
	return m, n.Err()
}
