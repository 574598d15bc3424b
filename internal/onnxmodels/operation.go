package onnxmodels

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// operations are those of package kernels that layers reach only in gradients, and further
// attributes.
func operations() []Model {
	square := layers.Square
	return []Model{
		of("transposed convolution", func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.ConvGradAttrs{Stride: [2]int{2, 3}, Pad: [2]int{1, 0}, Dilation: [2]int{2, 1}, Groups: 2, Size: [2]int{8, 14}}
			w := n.Param("w", layers.HeNormal{}, 4, 3, 2, 3)
			return n.Apply(kernels.ConvGradInput, a, 0, "y", w, n.Input("x", batch, 4, 4, 4))
		}),
		of("im2col", func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.Im2ColAttrs{Kernel: [2]int{2, 3}, Stride: square(1), Dilation: [2]int{2, 1}, Pad: square(1)}
			return n.Apply(kernels.Im2Col, a, 0, "y", n.Input("x", batch, 2, 5, 5))
		}),
		of("col2im", func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.Im2ColAttrs{Kernel: square(2), Stride: square(2), Dilation: square(1)}
			return n.Apply(kernels.Col2Im, kernels.Col2ImAttrs{Im2ColAttrs: a, Size: [2]int{7, 6}}, 0, "y", n.Input("x", batch, 3, 3, 12))
		}),
		of("unslice", func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.UnsliceAttrs{Shape: kernels.Shape{batch, 5, 9}, Start: []int{0, 1, 2}, Step: []int{1, 1, 2}}
			return n.Apply(kernels.Unslice, a, 0, "y", n.Input("x", batch, 3, 3))
		}),
		of("slice by steps", func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.SliceAttrs{Start: []int{0, 1, 0}, End: []int{batch, 6, 5}, Step: []int{1, 2, 3}}
			return n.Apply(kernels.Slice, a, 0, "y", n.Input("x", batch, 7, 5))
		}),
		of("cumsum from the end", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Apply(kernels.CumSum, kernels.CumSumAttrs{Axis: 2, Reverse: true}, 0, "y", n.Input("x", batch, 3, 4))
		}),
		of("pool with another padding at the end", func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.PoolAttrs{Kernel: square(3), Stride: square(2), Pad: [2]int{1, 0}, PadEnd: [2]int{0, 2}, CountPad: true}
			x := n.Input("x", batch, 2, 6, 5)
			m := a
			m.CountPad = false
			return n.Add(n.Apply(kernels.AvgPool, a, 0, "mean", x), n.Apply(kernels.MaxPool, m, 0, "max", x), "y")
		}),
		of("broadcast", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: kernels.Shape{batch, 3, 4}}, 0, "wide", n.Param("w", layers.HeNormal{}, 3, 1))
			return n.Mul(x, n.Input("x", batch, 1, 4), "y")
		}),
		of("decode", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Apply(kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 0.5, Shift: -1}, 0, "y", n.Indices("x", batch, 3))
		}),
		of("quotients of integers", func(n *layers.Net, batch int) *gorgonia.Node {
			a := n.Apply(kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerSub, To: arena.Int64}, 0, "a", n.Indices("x", batch, 6), n.Constant([]int{3}, "", 1))
			return n.Apply(kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerDiv, To: arena.Int32}, 0, "y", a, n.Indices("b", batch, 6))
		}),
		of("sums of integers", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Indices("x", batch, 3, 2)
			r := kernels.IntegerReduceAttrs{Func: kernels.IntegerAdd, ReduceAttrs: kernels.ReduceAttrs{Axes: []int{1}}, To: arena.Int64}
			m := kernels.IntegerReduceAttrs{Func: kernels.IntegerMax, ReduceAttrs: kernels.ReduceAttrs{Axes: []int{1}}, To: arena.Int32}
			sum, most := n.Apply(kernels.IntegerReduce, r, 0, "sum", x), n.Apply(kernels.IntegerReduce, m, 0, "most", x)
			return n.Apply(kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerMul, To: arena.Int64}, 0, "y", sum, most)
		}),
		of("unsigned bytes", func(n *layers.Net, batch int) *gorgonia.Node {
			wrapped := kernels.IntegerAttrs{Func: kernels.IntegerSub, To: arena.Uint8}
			y := n.Apply(kernels.Integer, wrapped, 0, "wrapped", n.Indices("a", batch, 3), n.Indices("b", batch, 3))
			return n.Cast(y, "y", gorgonia.Float32)
		}),
	}
}
