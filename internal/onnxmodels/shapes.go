package onnxmodels

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// shapes move elements.
func shapes() []Model {
	return []Model{
		of("reshape", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Reshape(n.Softmax(n.Reshape(n.Transpose(n.Reshape(n.Input("x", batch, 12), "matrix", batch, 3, 4), "turned", 0, 2, 1), "rows", batch*4, 3), "p"), "y", batch, 12)
		}),
		of("repeat and slice", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Repeat(n.Input("x", batch, 1, 5), "repeated", 1, 3)
			return n.Slice(x, "y", layers.Range{Axis: 1, Start: 1, End: 3}, layers.Range{Axis: -1, Start: 1, End: 5, Step: 2})
		}),
		of("at", func(n *layers.Net, batch int) *gorgonia.Node { return n.At(n.Input("x", batch, 3, 4), "y", 1, 2) }),
		of("concat and stack", func(n *layers.Net, batch int) *gorgonia.Node {
			a, b := n.Input("a", batch, 2), n.Input("b", batch, 3)
			c := n.Concat(gorgonia.Nodes{a, b}, "c", 1)
			return n.Stack(gorgonia.Nodes{c, n.Neg(c, "neg")}, "y", 1)
		}),
		of("split", func(n *layers.Net, batch int) *gorgonia.Node {
			parts := n.Split(n.Input("x", batch, 6), "part", 1, 2, 4)
			return n.Concat(gorgonia.Nodes{parts[1], parts[0]}, "y", 1)
		}),
		of("constant", func(n *layers.Net, batch int) *gorgonia.Node {
			c := n.Constant([]float32{1, 2, 3}, "c", 1, 3)
			return n.Add(n.Mul(n.Input("x", batch, 3), c, "scaled"), n.Constant(0.5, "half", batch, 3), "y")
		}),
		of("constant of the batch", func(n *layers.Net, batch int) *gorgonia.Node {
			rows := make([]float32, 3*batch)
			for i := range rows {
				rows[i] = float32(i % 3)
			}
			return n.Add(n.Input("x", batch, 3), n.Constant(rows, "rows", batch, 3), "y")
		}),
		of("states of zeros", func(n *layers.Net, batch int) *gorgonia.Node {
			x, h := n.Input("x", batch, 3), n.Constant(0.25, "zeros", batch, 2)
			return n.Concat(gorgonia.Nodes{h, x}, "y", 1)
		}),
		Model{Name: "scatter", Classes: 4, Mixes: true, Build: of("", func(n *layers.Net, batch int) *gorgonia.Node {
			sums := n.ScatterSum(n.Indices("at", batch), n.Input("x", batch, 3), "sums", 4)
			return n.MatMul(n.Input("a", batch, 4), sums, "y", layers.Transposed{})
		}).Build},
		of("input as output", func(n *layers.Net, batch int) *gorgonia.Node { return n.Input("x", batch, 3) }),
		of("gather of Gorgonia", func(n *layers.Net, batch int) *gorgonia.Node {
			index := n.Indices("at", batch)
			return n.Transpose(gorgonia.Must(gorgonia.ByIndices(n.Input("x", batch, 4), index, 1)), "y", 0, 1)
		}),
		of("concat with constants", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 3)
			return n.Concat(gorgonia.Nodes{n.Constant(0.0, "before", batch, 1), x, n.Constant(0.0, "after", batch, 2)}, "y", 1)
		}),
	}
}

// reductions reduce along axes.
func reductions() (all []Model) {
	type method = func(n *layers.Net, x *gorgonia.Node, name string, r layers.Reduce) *gorgonia.Node
	for name, f := range map[string]method{
		"sum": (*layers.Net).Sum, "mean": (*layers.Net).Mean, "max": (*layers.Net).Max, "min": (*layers.Net).Min, "prod": (*layers.Net).Prod,
		"norm": (*layers.Net).Norm, "variance": (*layers.Net).Variance, "logsumexp": (*layers.Net).LogSumExp,
	} {
		all = append(all, of(name, func(n *layers.Net, batch int) *gorgonia.Node {
			return f(n, n.Input("x", batch, 3, 4), "y", layers.Reduce{Axes: []int{1}})
		}), of(name+", kept", func(n *layers.Net, batch int) *gorgonia.Node {
			return f(n, n.Input("x", batch, 3, 4), "y", layers.Reduce{Axes: []int{1, 2}, Keep: true})
		}))
	}
	return append(all,
		of("softmax", func(n *layers.Net, batch int) *gorgonia.Node { return n.Softmax(n.Input("x", batch, 3, 4), "y", 1) }),
		of("log softmax", func(n *layers.Net, batch int) *gorgonia.Node { return n.LogSoftmax(n.Input("x", batch, 3, 4), "y") }),
		of("cumsum", func(n *layers.Net, batch int) *gorgonia.Node { return n.CumSum(n.Input("x", batch, 3, 4), "y", 1) }),
		of("argmax", func(n *layers.Net, batch int) *gorgonia.Node { return n.ArgMax(n.Input("x", batch, 3, 4), "y", 1) }),
		of("topk", func(n *layers.Net, batch int) *gorgonia.Node {
			values, index := n.TopK(n.Input("x", batch, 5), "top", 1, 3)
			return n.Mul(values, n.Cast(index, "index", gorgonia.Float32), "y")
		}),
		of("normalize", func(n *layers.Net, batch int) *gorgonia.Node { return n.Normalize(n.Input("x", batch, 5), "y") }),
		of("cross entropy", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.CrossEntropy(n.Input("x", batch, 4), n.Labels("y", batch), "loss")
		}),
		of("cross entropy, one-hot", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.CrossEntropyOneHot(n.Input("x", batch, 4), n.Input("target", batch, 4), "loss")
		}),
		Model{Name: "correct", Classes: 2, Build: of("", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Correct(n.Input("x", batch, 2), n.Labels("y", batch), "correct")
		}).Build},
		of("correct, one-hot", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.CorrectOneHot(n.Input("x", batch, 4), n.Input("target", batch, 4), "correct")
		}),
	)
}
