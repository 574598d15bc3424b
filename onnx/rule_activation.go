package onnx

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Activations, softmax and dropout.
var activationRules = map[string][]rule{
	"Relu":     always(unary(kernels.ReLU)),
	"Sigmoid":  always(unary(kernels.Sigmoid)),
	"Tanh":     always(unary(kernels.Tanh)),
	"Softplus": always(unary(kernels.Softplus)),
	"LeakyRelu": always(func(c *call) []*value {
		return c.one(c.Apply(kernels.LeakyReLU, kernels.LeakyReLUAttrs{Slope: finite("alpha", c.attrFloat("alpha", 0.01))}, c.float(0)))
	}),
	"PRelu": always(func(c *call) []*value {
		x := c.float(0)
		below := c.two(kernels.Less, x, c.scalar(x, 0)) // the slope may be infinite
		return c.one(c.Apply(kernels.Where, nil, below, c.mul(c.weight(1), x), x))
	}),
	"ThresholdedRelu": always(func(c *call) []*value {
		x := c.float(0)
		return c.one(c.Apply(kernels.Where, nil, c.two(kernels.Greater, x, c.scalar(x, c.attrFloat("alpha", 1))), x, c.scalar(x, 0)))
	}),
	"Elu":  always(func(c *call) []*value { return c.one(c.elu(c.float(0), c.attrFloat("alpha", 1), 1, 1)) }),
	"Celu": always(celu),
	"Selu": always(func(c *call) []*value {
		return c.one(c.elu(c.float(0), c.attrFloat("alpha", 1.67326319217681884765625), 1, c.attrFloat("gamma", 1.05070102214813232421875)))
	}),
	"HardSigmoid": always(func(c *call) []*value {
		return c.one(c.clamp(c.affine(c.float(0), c.attrFloat("alpha", 0.2), c.attrFloat("beta", 0.5)), 0, 1))
	}),
	"HardSwish": always(func(c *call) []*value {
		x := c.float(0)
		return c.one(c.mul(x, c.affine(c.clamp(c.affine(x, 1, 3), 0, 6), 1.0/6, 0)))
	}),
	"Softsign": always(func(c *call) []*value {
		x := c.float(0)
		return c.one(c.two(kernels.Div, x, c.affine(c.of(kernels.Abs, x), 1, 1)))
	}),
	"Swish": always(func(c *call) []*value {
		x := c.float(0)
		return c.one(c.mul(x, c.of(kernels.Sigmoid, c.affine(x, c.attrFloat("alpha", 1), 0))))
	}),
	"Mish": always(func(c *call) []*value {
		x := c.float(0)
		return c.one(c.mul(x, c.of(kernels.Tanh, c.of(kernels.Softplus, x))))
	}),
	"Shrink":     always(shrink),
	"Gelu":       always(gelu),
	"Softmax":    {{since: 1, apply: softmaxFlat(kernels.Softmax)}, {since: 13, apply: softmax(kernels.Softmax)}},
	"LogSoftmax": {{since: 1, apply: softmaxFlat(kernels.LogSoftmax)}, {since: 13, apply: softmax(kernels.LogSoftmax)}},
	"Dropout":    {{since: 7, apply: dropout}, {since: 12, apply: dropout12}},
}

// elu is gain·x above 0, and gain·alpha·(exp(scale·x) - 1) below.
func (c *call) elu(x kernels.Value, alpha, scale, gain float64) kernels.Value {
	zero := c.scalar(x, 0)
	below := c.two(kernels.Minimum, x, zero)
	if scale != 1 {
		below = c.affine(below, scale, 0)
	}
	y := c.plus(c.two(kernels.Maximum, x, zero), c.affine(c.of(kernels.Expm1, below), alpha, 0))
	if gain != 1 {
		y = c.affine(y, gain, 0)
	}
	return y
}

func celu(c *call) []*value {
	alpha := c.attrFloat("alpha", 1)
	if alpha == 0 {
		badAttribute("alpha is 0")
	}
	return c.one(c.elu(c.float(0), alpha, 1/alpha, 1))
}

// shrink is 0 near 0, and elsewhere x moved towards 0.
func shrink(c *call) []*value {
	x, bias, lambda := c.float(0), c.attrFloat("bias", 0), c.attrFloat("lambd", 0.5)
	above := c.two(kernels.Greater, x, c.scalar(x, lambda))
	below := c.two(kernels.Less, x, c.scalar(x, -lambda))
	y := c.Apply(kernels.Where, nil, below, c.affine(x, 1, bias), c.scalar(x, 0))
	return c.one(c.Apply(kernels.Where, nil, above, c.affine(x, 1, -bias), y))
}

// gelu is x·Φ(x), exact or by tanh: the formulas are those of layers.GELU and layers.GELUTanh.
func gelu(c *call) []*value {
	x := c.float(0)
	switch kind := c.attrText("approximate", "none"); kind {
	case "none":
		return c.one(c.mul(x, c.affine(c.of(kernels.Erf, c.affine(x, 1/math.Sqrt2, 0)), 0.5, 0.5)))
	case "tanh":
		const scale = 2 * math.Sqrt2 / 1.7724538509055160273
		square := c.two(kernels.Minimum, c.of(kernels.Square, x), c.scalar(x, 900))
		return c.one(c.mul(x, c.of(kernels.Sigmoid, c.mul(x, c.affine(square, 0.044715*scale, scale)))))
	default:
		refuse("approximate %q", kind)
	}
	return nil
}

func softmax(op *kernels.Op) ruleFunc {
	return func(c *call) []*value {
		return c.one(c.Apply(op, kernels.SoftmaxAttrs{Axis: axis(c.attrInt("axis", -1), len(c.shape(0)))}, c.float(0)))
	}
}

// softmaxFlat is softmax over all axes from one on.
func softmaxFlat(op *kernels.Op) ruleFunc {
	return func(c *call) []*value {
		s := c.shape(0)
		k := axis(c.attrInt("axis", 1), len(s))
		y := c.Apply(op, kernels.SoftmaxAttrs{Axis: 1}, c.reshape(c.float(0), kernels.Shape{s[:k].Elems(), s[k:].Elems()}))
		return c.one(c.reshape(y, s))
	}
}

// dropout returns its operand: before opset 12, models say nothing of training.
func dropout(c *call) []*value { return c.undropped() }

// undropped returns the operand, and a mask of ones if it is asked for.
func (c *call) undropped() []*value {
	x := c.must(0)
	out := []*value{x}
	if len(c.n.Outputs) > 1 && c.n.Outputs[1] != "" && x.shape.Elems() <= c.b.limit {
		ones := make([]float64, x.shape.Elems())
		for i := range ones {
			ones[i] = 1
		}
		out = append(out, known(proto.Bool, x.shape, ones))
	}
	return out
}

// dropout12 drops in training, if the model was exported for training.
func dropout12(c *call) []*value {
	rate := 0.5
	if c.arg(1) != nil {
		rate = c.number(1, "the ratio")
	}
	if c.arg(2) == nil || c.number(2, "training_mode") == 0 || rate == 0 || c.folding {
		return c.undropped()
	}
	if !(rate > 0 && rate < 1) {
		badAttribute("ratio is %v", rate)
	}
	x := c.float(0)
	y := c.add(step{op: kernels.Dropout, in: []kernels.Value{x}, rate: rate, name: nodeName(nameOf(c.n))}, c.Spec(x))
	return c.one(y[0])
}
