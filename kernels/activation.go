package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Activations.
//
//	x [...] → y [...], of one float type
//
// NaN stays NaN in all of them.
//
//	relu     y = max(x, 0)
//	sigmoid  y = 1 / (1 + exp(-x))
//	tanh     y = tanh x
//	softplus y = log(1 + exp x), as max(x, 0) + log1p(exp(-|x|))
var (
	ReLU    = Register(unary("relu", relu, unaryCases(offZero)))
	Sigmoid = Register(unary("sigmoid", func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, unaryCases(nil),
		unaryKey("sigmoid")))
	Tanh     = Register(unary("tanh", math.Tanh, unaryCases(nil), unaryKey("tanh")))
	Softplus = Register(unary("softplus", softplus, unaryCases(nil), unaryKey("softplus")))
)

// LeakyReLUAttrs are the attributes of LeakyReLU and LeakyReLUGrad. Slope is at least 0, so that
// the sign of the result is that of the operand.
type LeakyReLUAttrs struct{ Slope float64 }

// LeakyReLU is ReLU with a slope below 0.
//
//	x [...] → y [...]
//
// y = x for x > 0, Slope·x elsewhere.
var LeakyReLU = Register(&Op{
	Name: "leaky_relu", InPlace: []int8{0},
	Infer: inferLeaky("leaky_relu", 1),
	Elem:  elemLeaky,
	Ref:   func(attrs any, in, out []Tensor) { refElem(elemLeaky, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		c := unaryCases(offZero)(r, float)
		c.Attrs = LeakyReLUAttrs{r.Float64() / 2}
		return c
	},
})

// Gradients of activations from their results.
//
//	y [...], dy [...] → dx [...], of one spec
//
//	relu_grad     dx = dy where y > 0, 0 elsewhere
//	sigmoid_grad  dx = dy·y·(1 - y)
//	tanh_grad     dx = dy·(1 - y²)
var (
	ReLUGrad = Register(resultGrad("relu_grad", reluGrad,
		func(r *rand.Rand, y []float64) { normal(r, y); each(y, relu) }))
	SigmoidGrad = Register(resultGrad("sigmoid_grad", func(y, dy float64) float64 { return dy * y * (1 - y) },
		func(r *rand.Rand, y []float64) { between(r, y, 0, 1) }))
	TanhGrad = Register(resultGrad("tanh_grad", func(y, dy float64) float64 { return dy * (1 - y*y) },
		func(r *rand.Rand, y []float64) { between(r, y, -1, 1) }))
)

// LeakyReLUGrad is the gradient of LeakyReLU from its result.
//
//	y [...], dy [...] → dx [...]
//
// dx = dy where y > 0, Slope·dy elsewhere.
var LeakyReLUGrad = Register(&Op{
	Name: "leaky_relu_grad", InPlace: []int8{0, 1},
	Infer: inferLeaky("leaky_relu_grad", 2),
	Elem:  elemLeakyGrad,
	Ref:   func(attrs any, in, out []Tensor) { refElem(elemLeakyGrad, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := Spec{float, randomShape(r, randomRank(r))}
		return Case{Attrs: LeakyReLUAttrs{r.Float64() / 2}, In: []Spec{s, s}}
	},
})

func init() {
	fromResult := func(op *Op) func(Graph, Node, []Value) []Value {
		return func(g Graph, n Node, dy []Value) []Value {
			return []Value{g.Apply(op, n.Attrs, n.Out[0], dy[0])}
		}
	}
	ReLU.Grad, LeakyReLU.Grad = fromResult(ReLUGrad), fromResult(LeakyReLUGrad)
	Sigmoid.Grad, Tanh.Grad = fromResult(SigmoidGrad), fromResult(TanhGrad)
	Softplus.Grad = unaryGrad(func(g Graph, x, _, dy Value) Value { return mul(g, dy, g.Apply(Sigmoid, nil, x)) })
}

// resultGrad is an elementwise op of a result and its gradient, which have the same spec.
func resultGrad(name string, elem func(y, dy float64) float64, results func(r *rand.Rand, y []float64)) *Op {
	op := binary(name, elem, func(r *rand.Rand, float arena.DType) Case {
		s := Spec{float, randomShape(r, randomRank(r))}
		return Case{In: []Spec{s, s}, Fill: func(r *rand.Rand, k int, data []float64) {
			if k == 0 {
				results(r, data)
				return
			}
			normal(r, data)
		}}
	})
	op.Infer = same(name, 2)
	return op
}

// inferLeaky checks the slope, and n operands of one spec.
func inferLeaky(name string, n int) func(any, []Spec) ([]Spec, error) {
	return func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[LeakyReLUAttrs](name, attrs)
		if err != nil {
			return nil, err
		}
		if !(a.Slope >= 0) {
			return nil, attrError(name, "slope %v must not be negative", a.Slope)
		}
		return sameSpecs(name, in, n)
	}
}

func elemLeaky(attrs any, x, _ float64) float64 {
	if x > 0 {
		return x
	}
	return attrs.(LeakyReLUAttrs).Slope * x
}

func elemLeakyGrad(attrs any, y, dy float64) float64 {
	if y > 0 {
		return dy
	}
	return attrs.(LeakyReLUAttrs).Slope * dy
}

func relu(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return x
}

func reluGrad(y, dy float64) float64 {
	if y > 0 {
		return dy
	}
	return 0
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// each replaces every element v by f(v).
func each(data []float64, f func(float64) float64) {
	for i, v := range data {
		data[i] = f(v)
	}
}
