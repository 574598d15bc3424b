package onnxmodels

import (
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// elementwise are functions of elements: of x, or of |x| + 0.5 where only positive numbers have a
// value.
func elementwise() (all []Model) {
	unary := func(name string, positive bool, f func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node) {
		all = append(all, of(name, func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 3, 4)
			if positive {
				x = n.Affine(n.Abs(x, "abs"), "positive", 1, 0.5)
			}
			return f(n, x)
		}))
	}
	type method = func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node
	for name, f := range map[string]method{
		"abs": (*layers.Net).Abs, "cos": (*layers.Net).Cos, "sin": (*layers.Net).Sin, "exp": (*layers.Net).Exp, "expm1": (*layers.Net).Expm1,
		"neg": (*layers.Net).Neg, "square": (*layers.Net).Square, "erf": layers.Erf, "gelu": layers.GELU, "gelu tanh": layers.GELUTanh,
		"hardswish": layers.HardSwish, "relu": layers.ReLU, "silu": layers.SiLU, "sigmoid": layers.Sigmoid, "softplus": layers.Softplus,
		"tanh": layers.Tanh, "clamp": layers.Clamp(-0.5, 0.75), "elu": layers.ELU(1.5), "leaky relu": layers.LeakyReLU(0.2),
	} {
		unary(name, false, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node { return f(n, x, "y") })
	}
	for name, f := range map[string]method{
		"log": (*layers.Net).Log, "log1p": (*layers.Net).Log1p, "sqrt": (*layers.Net).Sqrt, "reciprocal": (*layers.Net).Reciprocal,
	} {
		unary(name, true, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node { return f(n, x, "y") })
	}
	// Functions that only Gorgonia has.
	for name, f := range map[string]func(*gorgonia.Node) (*gorgonia.Node, error){
		"cube": gorgonia.Cube, "sign": gorgonia.Sign, "ceil": gorgonia.Ceil, "floor": gorgonia.Floor,
	} {
		unary(name, false, func(_ *layers.Net, x *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(f(x)) })
	}
	for name, f := range map[string]func(*gorgonia.Node) (*gorgonia.Node, error){"log2": gorgonia.Log2, "inverse sqrt": gorgonia.InverseSqrt} {
		unary(name, true, func(_ *layers.Net, x *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(f(x)) })
	}
	unary("power", true, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node { return n.Power(x, "y", 1.7) })
	unary("affine", false, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node { return n.Affine(x, "y", -2, 3) })
	return slices.Concat(all, pairs(), choices())
}

// pairs are functions of two elements, of floats and of integers.
func pairs() (all []Model) {
	type pair = func(n *layers.Net, a, b *gorgonia.Node, name string) *gorgonia.Node
	for name, f := range map[string]pair{
		"add": (*layers.Net).Add, "sub": (*layers.Net).Sub, "mul": (*layers.Net).Mul, "div": (*layers.Net).Div, "maximum": (*layers.Net).Maximum,
		"minimum": (*layers.Net).Minimum, "less": (*layers.Net).Less, "less equal": (*layers.Net).LessEqual, "greater": (*layers.Net).Greater,
		"greater equal": (*layers.Net).GreaterEqual, "not equal": (*layers.Net).NotEqual,
	} {
		all = append(all, of(name, func(n *layers.Net, batch int) *gorgonia.Node {
			return f(n, n.Input("a", batch, 3, 4), n.Input("b", batch, 1, 4), "y")
		}))
	}
	for name, f := range map[string]func(a, b *gorgonia.Node) (*gorgonia.Node, error){
		"add": gorgonia.Add, "sub": gorgonia.Sub, "mul": gorgonia.HadamardProd, "maximum": gorgonia.MaxBetween, "minimum": gorgonia.MinBetween,
	} {
		all = append(all, of(name+", integers", func(n *layers.Net, batch int) *gorgonia.Node {
			return gorgonia.Must(f(n.Indices("a", batch, 3), n.Indices("b", batch, 3)))
		}))
	}
	type comparison = func(a, b *gorgonia.Node, retSame bool) (*gorgonia.Node, error)
	for name, f := range map[string]comparison{
		"less": gorgonia.Lt, "less equal": gorgonia.Lte, "greater": gorgonia.Gt, "greater equal": gorgonia.Gte, "equal": gorgonia.Eq, "not equal": gorgonia.Ne,
	} {
		all = append(all, of(name+", integers", func(n *layers.Net, batch int) *gorgonia.Node {
			return gorgonia.Must(f(n.Indices("a", batch, 3), n.Indices("b", batch, 3), true))
		}))
	}
	return all
}

// choices choose and convert elements.
func choices() []Model {
	return []Model{
		of("pow", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Pow(n.Exp(n.Input("a", batch, 3), "exp"), n.Input("b", batch, 3), "y")
		}),
		of("equal", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 3, 4)
			return n.Equal(layers.ReLU(n, x, "relu"), x, "y")
		}),
		of("where", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 3, 4)
			return n.Where(n.Less(x, n.Scalar("zero", 0), "negative"), n.Scalar("fill", -1.5), x, "y")
		}),
		of("where, a mask of floats", func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 3, 4)
			return n.Where(layers.ReLU(n, x, "mask"), x, n.Input("b", batch, 1, 4), "y")
		}),
		of("cast", func(n *layers.Net, batch int) *gorgonia.Node {
			whole := n.Cast(n.Affine(n.Input("x", batch, 3), "y", 10, 0), "whole", tensor.Int)
			return n.Cast(whole, "back", tensor.Float32)
		}),
		of("double", func(n *layers.Net, batch int) *gorgonia.Node {
			return n.Cast(n.Exp(n.Cast(n.Input("x", batch, 3), "wide", tensor.Float64), "exp"), "narrow", tensor.Float32)
		}),
	}
}
