package onnxmodels

import (
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// products are products of matrices, convolutions and pools.
func products() []Model {
	square := layers.Square
	return append(fused(), []Model{
		of("matmul", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.MatMul(n.Input("x", batch, 3), n.Param("w", layers.HeNormal{}, 3, 2), "y", layers.Transposed{})
		}),
		of("matmul, transposed", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.MatMul(n.Input("x", batch, 3), n.Param("w", layers.HeNormal{}, 2, 3), "y", layers.Transposed{B: true})
		}),
		of("matmul, batched", func(n *layers.Net, batch int) *gorgonia.Node {
			a, b := n.Input("a", batch, 4, 3), n.Input("b", batch, 5, 4)
			return n.MatMul(a, b, "y", layers.Transposed{A: true, B: true})
		}),
		of("einsum", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Einsum("bqhd,bkhd->bhqk", "y", n.Input("q", batch, 3, 2, 4), n.Input("k", batch, 5, 2, 4))
		}),
		of("conv", func(n *layers.Net, batch int) *gorgonia.Node {
			c := layers.Conv2D{Out: 4, Kernel: [2]int{3, 2}, Stride: [2]int{2, 1}, Pad: [2]int{1, 0}, Groups: 2}
			return n.Conv(n.Input("x", batch, 2, 7, 6), "conv", c, layers.Tanh)
		}),
		of("conv, dilated", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Conv(n.Input("x", batch, 2, 7, 6), "conv", layers.Conv2D{Out: 3, Kernel: square(2), Dilation: square(2), NoBias: true}, nil)
		}),
		of("conv of Gorgonia", func(n *layers.Net, batch int) *gorgonia.Node {
			w := n.Param("w", layers.HeNormal{}, 3, 2, 3, 3)
			return gorgonia.Must(gorgonia.Conv2d(n.Input("x", batch, 2, 6, 6), w, tensor.Shape{3, 3}, []int{1, 1}, []int{2, 2}, []int{1, 1}))
		}),
		of("im2col of Gorgonia", func(n *layers.Net, batch int) *gorgonia.Node {
			return gorgonia.Must(gorgonia.Im2Col(n.Input("x", batch, 2, 6, 5), tensor.Shape{3, 2}, tensor.Shape{1, 0}, tensor.Shape{2, 1}, tensor.Shape{1, 1}))
		}),
		of("max pool", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.MaxPool(n.Input("x", batch, 2, 7, 6), "y", layers.Pool{Kernel: square(3), Stride: square(2), Pad: square(1)})
		}),
		of("avg pool", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.AvgPool(n.Input("x", batch, 2, 7, 6), "y", layers.Pool{Kernel: square(3), Stride: square(2), Pad: square(1)})
		}),
		of("global avg pool", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.GlobalAvgPool(n.Input("x", batch, 2, 7, 6), "y")
		}),
		of("two products", func(n *layers.Net, batch int) *gorgonia.Node { // their sum is no Gemm with a bias
			a, b := n.Dense(n.Input("a", batch, 3), "a", 2, nil), n.Dense(n.Input("b", batch, 4), "b", 2, nil)
			return n.Add(a, b, "y")
		}),
	}...)
}

// fused are products and convolutions with what a model of another format computes at once.
func fused() (all []Model) {
	product := func(name string, a kernels.MatMulAttrs, x, w, third []int) {
		all = append(all, of(name, func(n *layers.Net, batch int) *gorgonia.Node {
			each := func(name string, dims []int) *gorgonia.Node { return n.Input(name, append([]int{batch}, dims...)...) }
			all := func(name string, dims []int) *gorgonia.Node { return n.Param(name, layers.Uniform{Limit: 1}, dims...) }
			second, last := all, all
			if len(x) > 1 {
				second = each
			}
			if a.Add {
				last = each
			}
			return n.Apply(kernels.MatMul, a, 0, "y", each("x", x), second("w", w), last("c", third))
		}))
	}
	leaky := kernels.LeakyReLUAttrs{Slope: 0.3}
	product("matmul with a bias", kernels.MatMulAttrs{Bias: true, TransB: true, Act: kernels.LeakyReLU, ActAttrs: leaky}, []int{3}, []int{2, 3}, []int{2})
	product("matmul with a sum", kernels.MatMulAttrs{Add: true}, []int{3}, []int{3, 2}, []int{2})
	product("matmul, batched, with a bias", kernels.MatMulAttrs{Bias: true, TransA: true, Act: kernels.Sigmoid}, []int{4, 3}, []int{4, 2}, []int{2})
	product("matmul, batched, with a sum", kernels.MatMulAttrs{Add: true, TransB: true}, []int{3, 4}, []int{2, 4}, []int{3, 2})
	for _, act := range []*kernels.Op{kernels.ReLU, kernels.Tanh} {
		all = append(all, of("conv with "+act.Name, func(n *layers.Net, batch int) *gorgonia.Node {
			a := kernels.ConvAttrs{Stride: layers.Square(1), Dilation: layers.Square(1), Groups: 1, Act: act}
			return n.Apply(kernels.Conv, a, 0, "y", n.Input("x", batch, 2, 5, 4), n.Param("w", layers.HeNormal{}, 3, 2, 2, 2))
		}))
	}
	return all
}
