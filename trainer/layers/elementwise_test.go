package layers_test

import (
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// function is a function of each element in plain Go.
type function struct {
	name string
	code string // the call as Go text
	op   layers.Activation
	f    func(x float64) float64
	fill func(r *rand.Rand, data []float64) // nil: standard normal
}

// functions lists the elementwise functions of package layers.
func functions() []function {
	power := func(p float64) layers.Activation {
		return func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node { return n.Power(x, name, p) }
	}
	affine := func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node {
		return n.Affine(x, name, -1.5, 0.25)
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	return []function{
		{"exp", `net.Exp(%s, "")`, (*layers.Net).Exp, math.Exp, nil},
		{"expm1", `net.Expm1(%s, "")`, (*layers.Net).Expm1, math.Expm1, nil},
		{"log", `net.Log(%s, "")`, (*layers.Net).Log, math.Log, positive},
		{"log1p", `net.Log1p(%s, "")`, (*layers.Net).Log1p, math.Log1p, positive},
		{"sqrt", `net.Sqrt(%s, "")`, (*layers.Net).Sqrt, math.Sqrt, positive},
		{"square", `net.Square(%s, "")`, (*layers.Net).Square, func(x float64) float64 { return x * x }, nil},
		{"abs", `net.Abs(%s, "")`, (*layers.Net).Abs, math.Abs, quarters},
		{"neg", `net.Neg(%s, "")`, (*layers.Net).Neg, func(x float64) float64 { return -x }, nil},
		{"reciprocal", `net.Reciprocal(%s, "")`, (*layers.Net).Reciprocal, func(x float64) float64 { return 1 / x }, positive},
		{"sin", `net.Sin(%s, "")`, (*layers.Net).Sin, math.Sin, nil},
		{"cos", `net.Cos(%s, "")`, (*layers.Net).Cos, math.Cos, nil},
		{"affine", `net.Affine(%s, "", -1.5, 0.25)`, affine, func(x float64) float64 { return 0.25 - 1.5*x }, nil},
		{"power -1", `net.Power(%s, "", -1)`, power(-1), func(x float64) float64 { return 1 / x }, positive},
		{"power -0.5", `net.Power(%s, "", -0.5)`, power(-0.5), func(x float64) float64 { return 1 / math.Sqrt(x) }, positive},
		{"power 2", `net.Power(%s, "", 2)`, power(2), func(x float64) float64 { return x * x }, nil},
		{"power 3", `net.Power(%s, "", 3)`, power(3), func(x float64) float64 { return x * x * x }, nil},
		{"power 5 of any sign", `net.Power(%s, "", 5)`, power(5), func(x float64) float64 { return x * x * x * x * x }, nil},
		{"power 1.5", `net.Power(%s, "", 1.5)`, power(1.5), func(x float64) float64 { return math.Pow(x, 1.5) }, positive},
		{"relu", `layers.ReLU(net, %s, "")`, layers.ReLU, func(x float64) float64 { return max(x, 0) }, quarters},
		{"leaky relu", `layers.LeakyReLU(0.25)(net, %s, "")`, layers.LeakyReLU(0.25), func(x float64) float64 { return max(x, 0.25*x) }, quarters},
		{"sigmoid", `layers.Sigmoid(net, %s, "")`, layers.Sigmoid, sigmoid, nil},
		{"tanh", `layers.Tanh(net, %s, "")`, layers.Tanh, math.Tanh, nil},
		{"erf", `layers.Erf(net, %s, "")`, layers.Erf, math.Erf, nil},
		{"gelu", `layers.GELU(net, %s, "")`, layers.GELU, func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }, nil},
		{"gelu tanh", `layers.GELUTanh(net, %s, "")`, layers.GELUTanh, func(x float64) float64 {
			return x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) / 2
		}, nil},
		{"silu", `layers.SiLU(net, %s, "")`, layers.SiLU, func(x float64) float64 { return x * sigmoid(x) }, nil},
		{"softplus", `layers.Softplus(net, %s, "")`, layers.Softplus, func(x float64) float64 { return math.Log(1 + math.Exp(x)) }, nil},
		{"elu", `layers.ELU(1.25)(net, %s, "")`, layers.ELU(1.25), func(x float64) float64 {
			if x > 0 {
				return x
			}
			return 1.25 * (math.Exp(x) - 1)
		}, quarters},
		{"hard swish", `layers.HardSwish(net, %s, "")`, layers.HardSwish, func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }, quarters},
		{"clamp", `layers.Clamp(-1, 2)(net, %s, "")`, layers.Clamp(-1, 2), func(x float64) float64 { return min(max(x, -1), 2) }, quarters},
		{"clamp from below", `layers.Clamp(0, math.Inf(1))(net, %s, "")`, layers.Clamp(0, math.Inf(1)), func(x float64) float64 { return max(x, 0) }, quarters},
	}
}

func elementwiseCases() (cases []opCase) {
	for _, c := range functions() {
		cases = append(cases, opCase{name: c.name, in: [][]int{{4, 5}}, shape: []int{4, 5}, fill: c.fill,
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return c.op(n, x[0], "") },
			want: func(x [][]float64) (y []float64) {
				for _, v := range x[0] {
					y = append(y, c.f(v))
				}
				return y
			}})
	}
	return cases
}
