package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Functions of two elements.
//
//	a [...], b [...] → y, their shapes broadcast as in NumPy, of one float type
//
// Gradients are summed to the operands' shapes. The gradient of Pow by its exponent uses the
// logarithm of the base: it is NaN for a negative base, where the power is not differentiable, and 0
// for a base of 0.
var (
	Add = Register(binary("add", func(x, y float64) float64 { return x + y }, binaryCases(), binaryKey("+")))
	Sub = Register(binary("sub", func(x, y float64) float64 { return x - y }, binaryCases(), binaryKey("-")))
	Mul = Register(binary("mul", func(x, y float64) float64 { return x * y }, binaryCases(), binaryKey("⊙")))
	Div = Register(binary("div", func(x, y float64) float64 { return x / y }, binaryCases(nil, offZero), binaryKey("÷")))
	Pow = Register(binary("pow", math.Pow, binaryCases(base, nil), binaryKey("^")))

	// The larger and the smaller of two elements: NaN where either is NaN, b where they are equal. Of
	// equal elements, each gets half of the gradient; in Gorgonia a gets all of it.
	Maximum = Register(binary("maximum", maximum, unequal, "gorgonia.maxBetween"))
	Minimum = Register(binary("minimum", minimum, unequal, "gorgonia.minBetween"))
)

// Comparisons.
//
//	a [...], b [...] → y, 1 where the comparison holds and 0 elsewhere, in the operands' type
//
// If an operand is NaN, NotEqual is 1 and the others are 0.
var (
	Less = Register(binary("less", func(x, y float64) float64 { return oneIf(x < y) },
		binaryCases(whole, whole), binaryKey("<")))
	LessEqual = Register(binary("less_equal", func(x, y float64) float64 { return oneIf(x <= y) },
		binaryCases(whole, whole), binaryKey("<=")))
	Greater = Register(binary("greater", func(x, y float64) float64 { return oneIf(x > y) },
		binaryCases(whole, whole), binaryKey(">")))
	GreaterEqual = Register(binary("greater_equal", func(x, y float64) float64 { return oneIf(x >= y) },
		binaryCases(whole, whole), binaryKey(">=")))
	Equal = Register(binary("equal", func(x, y float64) float64 { return oneIf(x == y) },
		binaryCases(whole, whole), binaryKey("==")))
	NotEqual = Register(binary("not_equal", func(x, y float64) float64 { return oneIf(x != y) },
		binaryCases(whole, whole), binaryKey("!=")))
)

func init() {
	Add.Grad = binaryGrad(func(_ Graph, _, _, _, dy Value) (da, db Value) { return dy, dy })
	Sub.Grad = binaryGrad(func(g Graph, _, _, _, dy Value) (da, db Value) { return dy, neg(g, dy) })
	Mul.Grad = binaryGrad(func(g Graph, a, b, _, dy Value) (da, db Value) { return mul(g, dy, b), mul(g, dy, a) })
	Div.Grad = binaryGrad(func(g Graph, _, b, y, dy Value) (da, db Value) {
		da = div(g, dy, b)
		return da, neg(g, mul(g, da, y))
	})
	Pow.Grad = binaryGrad(func(g Graph, a, b, y, dy Value) (da, db Value) {
		// b·a^(b-1) and y·log a, without 0·Inf where b or a is 0: there b-0 = 0 and log 1 = 0.
		zero := g.Apply(Fill, FillAttrs{Type: g.Spec(a).Type, Shape: Shape{}})
		less := g.Apply(Sub, nil, b, g.Apply(NotEqual, nil, b, zero))
		slope := mul(g, b, g.Apply(Pow, nil, a, less))
		log := g.Apply(Log, nil, g.Apply(Add, nil, a, g.Apply(Equal, nil, a, zero)))
		return mul(g, dy, slope), mul(g, dy, mul(g, y, log))
	})
	Maximum.Grad = binaryGrad(func(g Graph, a, b, _, dy Value) (da, db Value) { return share(g, a, b, dy), share(g, b, a, dy) })
	Minimum.Grad = binaryGrad(func(g Graph, a, b, _, dy Value) (da, db Value) { return share(g, b, a, dy), share(g, a, b, dy) })
	for _, op := range []*Op{Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual} {
		op.Grad = noGrad
	}
}

// binaryKey is the Gorgonia key of an operator of two operands.
func binaryKey(operator string) string { return "gorgonia.elemBinOp:" + operator }

// share is dy where a > b, half of it where a = b, and 0 elsewhere.
func share(g Graph, a, b, dy Value) Value {
	twice := g.Apply(Add, nil, g.Apply(Greater, nil, a, b), g.Apply(GreaterEqual, nil, a, b))
	return mul(g, dy, affine(g, twice, 0.5, 0))
}

func maximum(x, y float64) float64 {
	if x > y || x != x {
		return x
	}
	return y
}

func minimum(x, y float64) float64 {
	if x < y || x != x {
		return x
	}
	return y
}

// oneIf is 1 for true and 0 for false.
func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func base(r *rand.Rand, data []float64) { between(r, data, 0.3, 2) }

// whole makes ties likely.
func whole(r *rand.Rand, data []float64) {
	for i := range data {
		data[i] = float64(r.IntN(5) - 2)
	}
}

// unequal has operands whose elements differ by half or more, so that a small step exchanges none.
func unequal(r *rand.Rand, float arena.DType) Case {
	c := binaryCases()(r, float)
	c.Fill = func(r *rand.Rand, k int, data []float64) {
		for i := range data {
			data[i] = float64(r.IntN(13)-6) + float64(k)/2
		}
	}
	return c
}
