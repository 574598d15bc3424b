package layers

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Exp adds eˣ of each element.
func (n *Net) Exp(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("exp", kernels.Exp, x, name)
}

// Expm1 adds eˣ - 1 of each element, accurate near 0.
func (n *Net) Expm1(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("expm1", kernels.Expm1, x, name)
}

// Log adds the natural logarithm of each element: -Inf of 0, NaN of negative elements.
func (n *Net) Log(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("log", kernels.Log, x, name)
}

// Log1p adds log(1 + x) of each element, accurate near 0.
func (n *Net) Log1p(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("log1p", kernels.Log1p, x, name)
}

// Sqrt adds the square root of each element: NaN of negative elements. Its gradient at 0 is infinite.
func (n *Net) Sqrt(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("sqrt", kernels.Sqrt, x, name)
}

// Square adds x² of each element.
func (n *Net) Square(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("square", kernels.Square, x, name)
}

// Abs adds |x| of each element. Its gradient at 0 is 0.
func (n *Net) Abs(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("abs", kernels.Abs, x, name)
}

// Neg adds -x of each element.
func (n *Net) Neg(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("neg", kernels.Neg, x, name)
}

// Reciprocal adds 1/x of each element.
func (n *Net) Reciprocal(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("reciprocal", kernels.Inverse, x, name)
}

// Sin adds the sine of each element, in radians.
func (n *Net) Sin(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("sin", kernels.Sin, x, name)
}

// Cos adds the cosine of each element, in radians.
func (n *Net) Cos(x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("cos", kernels.Cos, x, name)
}

// Softplus is the activation log(1 + eˣ). It overflows for no x.
func Softplus(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("softplus", kernels.Softplus, x, name)
}

// Erf is the error function, 2/√π ∫ exp(-t²) dt from 0 to x, of each element.
func Erf(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("erf", kernels.Erf, x, name)
}

// GELU is the activation x·Φ(x), Φ the normal distribution: x·(1 + erf(x/√2))/2.
func GELU(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.function("gelu", x, name, func(c calc, x kernels.Value) kernels.Value {
		return c.mul(x, c.affine(c.of(kernels.Erf, c.affine(x, 1/math.Sqrt2, 0)), 0.5, 0.5))
	})
}

// GELUTanh is the approximation x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 of [GELU], which GPT-2 and
// BERT use.
func GELUTanh(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	const scale = 2 * math.Sqrt2 / 1.7724538509055160273 // 2·√(2/π): (1 + tanh u)/2 = sigmoid 2u
	return n.function("gelu tanh", x, name, func(c calc, x kernels.Value) kernels.Value {
		// From |x| = 30 on the sigmoid is 0 or 1: the square ends there, so that its slope is not 0·Inf.
		square := c.two(kernels.Minimum, c.of(kernels.Square, x), c.scalar(x, 900))
		u := c.mul(x, c.affine(square, 0.044715*scale, scale))
		return c.mul(x, c.of(kernels.Sigmoid, u))
	})
}

// SiLU is the activation x·sigmoid(x), which is also called swish.
func SiLU(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.function("silu", x, name, func(c calc, x kernels.Value) kernels.Value {
		return c.mul(x, c.of(kernels.Sigmoid, x))
	})
}

// HardSwish is the activation x·clamp(x + 3, 0, 6)/6.
func HardSwish(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.function("hard swish", x, name, func(c calc, x kernels.Value) kernels.Value {
		return c.mul(x, c.affine(c.clamp(c.affine(x, 1, 3), 0, 6), 1.0/6, 0))
	})
}

// ELU returns the activation that is x for x > 0 and alpha·(eˣ - 1) otherwise.
func ELU(alpha float64) Activation {
	return func(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
		if !finite(alpha) {
			n.fail(fmt.Errorf("%s: alpha is %v: it must be finite, such as 1: %w", operation("elu", name, x), alpha, kernels.ErrAttrs))
			return nil
		}
		return n.function("elu", x, name, func(c calc, x kernels.Value) kernels.Value {
			zero := c.scalar(x, 0)
			negative := c.of(kernels.Expm1, c.two(kernels.Minimum, x, zero))
			return c.two(kernels.Add, c.two(kernels.Maximum, x, zero), c.affine(negative, alpha, 0))
		})
	}
}

// Clamp returns the function that is low below low, high above high, and x between: ReLU6 is
// Clamp(0, 6). A bound may be infinite. The gradient is 1 between the bounds, 0 outside, and 1/2 at a
// bound.
func Clamp(low, high float64) Activation {
	return func(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
		if !(low <= high) {
			n.fail(fmt.Errorf("%s: low is %v and high %v: low must not exceed high: %w", operation("clamp", name, x), low, high, kernels.ErrAttrs))
			return nil
		}
		return n.function("clamp", x, name, func(c calc, x kernels.Value) kernels.Value { return c.clamp(x, low, high) })
	}
}

// Affine adds scale·x + shift.
func (n *Net) Affine(x *gorgonia.Node, name string, scale, shift float64) *gorgonia.Node {
	layer := operation("affine", name, x)
	switch {
	case !n.floats(layer, x):
	case !finite(scale) || !finite(shift):
		n.fail(fmt.Errorf("%s: scale is %v and shift %v: both must be finite: %w", layer, scale, shift, kernels.ErrAttrs))
	default:
		return n.operate("affine", name, kernels.Affine, kernels.AffineAttrs{Scale: scale, Shift: shift}, x)
	}
	return nil
}

// Power adds x^exponent. For an exponent that is not whole, it is NaN of negative elements.
// [Net.Pow] has an exponent for each element.
func (n *Net) Power(x *gorgonia.Node, name string, exponent float64) *gorgonia.Node {
	layer := operation("power", name, x)
	switch {
	case !n.floats(layer, x):
	case !finite(exponent):
		n.fail(fmt.Errorf("%s: the exponent is %v: it must be finite: %w", layer, exponent, kernels.ErrAttrs))
	case powers[exponent] != nil:
		return n.operate("power", name, powers[exponent], nil, x)
	default:
		return n.function("power", x, name, func(c calc, x kernels.Value) kernels.Value {
			return c.two(kernels.Pow, x, c.scalar(x, exponent))
		})
	}
	return nil
}

// powers are exponents for which an operation is faster, and exact.
var powers = map[float64]*kernels.Op{
	-1: kernels.Inverse, -0.5: kernels.InverseSqrt, 0.5: kernels.Sqrt, 2: kernels.Square, 3: kernels.Cube,
}

func finite(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }

// each adds an operation on each element of x.
func (n *Net) each(what string, op *kernels.Op, x *gorgonia.Node, name string) *gorgonia.Node {
	if !n.floats(operation(what, name, x), x) {
		return nil
	}
	return n.operate(what, name, op, nil, x)
}

// function adds a formula of x.
func (n *Net) function(what string, x *gorgonia.Node, name string, f func(c calc, x kernels.Value) kernels.Value) *gorgonia.Node {
	if !n.floats(operation(what, name, x), x) {
		return nil
	}
	return n.compose(what, name, func(g kernels.Graph, x []kernels.Value) kernels.Value { return f(calc{g}, x[0]) }, x)
}

// calc writes formulas.
type calc struct{ kernels.Graph }

// of applies an operation of one operand without attributes.
func (c calc) of(op *kernels.Op, x kernels.Value) kernels.Value { return c.Apply(op, nil, x) }

// two applies an operation of two operands without attributes.
func (c calc) two(op *kernels.Op, a, b kernels.Value) kernels.Value { return c.Apply(op, nil, a, b) }

func (c calc) mul(a, b kernels.Value) kernels.Value { return c.two(kernels.Mul, a, b) }

// affine is scale·x + shift.
func (c calc) affine(x kernels.Value, scale, shift float64) kernels.Value {
	return c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: scale, Shift: shift}, x)
}

// scalar is a constant of x's type.
func (c calc) scalar(x kernels.Value, value float64) kernels.Value {
	return c.Apply(kernels.Fill, kernels.FillAttrs{Type: c.Spec(x).Type, Shape: kernels.Shape{}, Value: value})
}

// clamp is x, at least low and at most high.
func (c calc) clamp(x kernels.Value, low, high float64) kernels.Value {
	if !math.IsInf(low, -1) {
		x = c.two(kernels.Maximum, x, c.scalar(x, low))
	}
	if !math.IsInf(high, 1) {
		x = c.two(kernels.Minimum, x, c.scalar(x, high))
	}
	return x
}

// limits returns the smallest and the largest normal number of x's type.
func (c calc) limits(x kernels.Value) (least, most float64) {
	if c.Spec(x).Type == arena.Float64 {
		return 0x1p-1022, math.MaxFloat64
	}
	return 0x1p-126, math.MaxFloat32
}

// detach is x as a constant: no gradient passes.
func (c calc) detach(x kernels.Value) kernels.Value {
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: c.Spec(x).Shape, Detach: true}, x)
}

// reshape is x in another shape.
func (c calc) reshape(x kernels.Value, shape kernels.Shape) kernels.Value {
	if c.Spec(x).Shape.Equal(shape) {
		return x
	}
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: shape}, x)
}
