package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Functions of one element.
//
//	x [...] → y [...], of one float type
//
// Where the gradient is a function of the result y, it uses y instead of x.
var (
	Neg         = Register(unary("neg", func(x float64) float64 { return -x }, unaryCases(nil), unaryKey("neg")))
	Abs         = Register(unary("abs", math.Abs, unaryCases(offZero), unaryKey("abs")))
	Sign        = Register(unary("sign", sign, unaryCases(offZero), unaryKey("sign")))
	Exp         = Register(unary("exp", math.Exp, unaryCases(nil), unaryKey("exp")))
	Log         = Register(unary("log", math.Log, unaryCases(positive), unaryKey("ln")))
	Log2        = Register(unary("log2", math.Log2, unaryCases(positive), unaryKey("log2")))
	Log1p       = Register(unary("log1p", math.Log1p, unaryCases(positive), unaryKey("log1p")))
	Expm1       = Register(unary("expm1", math.Expm1, unaryCases(nil), unaryKey("expm1")))
	Sqrt        = Register(unary("sqrt", math.Sqrt, unaryCases(positive), unaryKey("sqrt")))
	Square      = Register(unary("square", func(x float64) float64 { return x * x }, unaryCases(nil), unaryKey("square")))
	Cube        = Register(unary("cube", func(x float64) float64 { return x * x * x }, unaryCases(nil), unaryKey("cube")))
	Inverse     = Register(unary("inverse", func(x float64) float64 { return 1 / x }, unaryCases(offZero), unaryKey("inv")))
	InverseSqrt = Register(unary("inverse_sqrt", func(x float64) float64 { return 1 / math.Sqrt(x) },
		unaryCases(positive), unaryKey("invSqrt")))
	Sin   = Register(unary("sin", math.Sin, unaryCases(nil), unaryKey("sin")))
	Cos   = Register(unary("cos", math.Cos, unaryCases(nil), unaryKey("cos")))
	Erf   = Register(unary("erf", math.Erf, unaryCases(nil))) // the error function, 2/√π ∫ exp(-t²) dt from 0 to x
	Ceil  = Register(unary("ceil", math.Ceil, unaryCases(offWhole), unaryKey("ceil")))
	Floor = Register(unary("floor", math.Floor, unaryCases(offWhole), unaryKey("floor")))
)

func init() {
	Neg.Grad = unaryGrad(func(g Graph, _, _, dy Value) Value { return g.Apply(Neg, nil, dy) })
	Abs.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return mul(g, dy, g.Apply(Sign, nil, x)) })
	Exp.Grad = unaryGrad(func(g Graph, _, y, dy Value) Value { return mul(g, dy, y) })
	Log.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return div(g, dy, x) })
	Log2.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return div(g, dy, affine(g, x, math.Ln2, 0)) })
	Log1p.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return div(g, dy, affine(g, x, 1, 1)) })
	Expm1.Grad = unaryGrad(func(g Graph, _, y, dy Value) Value { return mul(g, dy, affine(g, y, 1, 1)) })
	Sqrt.Grad = unaryGrad(func(g Graph, _, y, dy Value) Value { return div(g, dy, affine(g, y, 2, 0)) })
	Square.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return mul(g, dy, affine(g, x, 2, 0)) })
	Cube.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value {
		return mul(g, dy, affine(g, g.Apply(Square, nil, x), 3, 0))
	})
	Inverse.Grad = unaryGrad(func(g Graph, _, y, dy Value) Value {
		return mul(g, dy, affine(g, g.Apply(Square, nil, y), -1, 0))
	})
	InverseSqrt.Grad = unaryGrad(func(g Graph, _, y, dy Value) Value {
		return mul(g, dy, affine(g, g.Apply(Cube, nil, y), -0.5, 0))
	})
	Sin.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return mul(g, dy, g.Apply(Cos, nil, x)) })
	Cos.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value {
		return g.Apply(Neg, nil, mul(g, dy, g.Apply(Sin, nil, x)))
	})
	Erf.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value {
		bell := g.Apply(Exp, nil, neg(g, g.Apply(Square, nil, x)))
		return mul(g, dy, affine(g, bell, 2/math.SqrtPi, 0)) // 2/√π·exp(-x²)
	})
	Sign.Grad, Ceil.Grad, Floor.Grad = noGrad, noGrad, noGrad
}

// unaryKey is the Gorgonia key of an operator of one operand.
func unaryKey(operator string) string { return "gorgonia.elemUnaryOp:" + operator }

// sign is -1, 0 or 1; NaN stays NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

func offZero(r *rand.Rand, data []float64) {
	normal(r, data)
	awayFromZero(data, 0.3)
}

func positive(r *rand.Rand, data []float64) { between(r, data, 0.2, 4) }

func offWhole(r *rand.Rand, data []float64) {
	for i := range data {
		data[i] = float64(r.IntN(9)-4) + 0.1 + 0.8*r.Float64()
	}
}

// AffineAttrs are the attributes of Affine.
type AffineAttrs struct{ Scale, Shift float64 }

// Affine scales and shifts.
//
//	x [...] → y [...]
//
// y = Scale·x + Shift.
var Affine = Register(&Op{
	Name: "affine", InPlace: []int8{0},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if _, err := attrsOf[AffineAttrs]("affine", attrs); err != nil {
			return nil, err
		}
		return sameSpecs("affine", in, 1)
	},
	Elem: elemAffine,
	Ref:  func(attrs any, in, out []Tensor) { refElem(elemAffine, attrs, in, out) },
	Cost: func(_ any, _, out []Spec) int64 { return 2 * int64(out[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		c := unaryCases(nil)(r, float)
		c.Attrs = AffineAttrs{Scale: r.NormFloat64(), Shift: r.NormFloat64()}
		return c
	},
})

func init() {
	Affine.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{affine(g, dy[0], n.Attrs.(AffineAttrs).Scale, 0)}
	}
}

func elemAffine(attrs any, x, _ float64) float64 {
	a := attrs.(AffineAttrs)
	return a.Scale*x + a.Shift
}
