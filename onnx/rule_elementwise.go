package onnx

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Arithmetic and functions of elements.
var elementwiseRules = map[string][]rule{
	"Add":        always(arithmetic(kernels.Add, kernels.IntegerAdd)),
	"Sub":        always(arithmetic(kernels.Sub, kernels.IntegerSub)),
	"Mul":        always(arithmetic(kernels.Mul, kernels.IntegerMul)),
	"Div":        {{since: 1, apply: arithmetic(kernels.Div, kernels.IntegerDiv), fold: elementwiseFold(foldDiv)}},
	"Mod":        {{since: 10, fold: elementwiseFold(foldMod)}},
	"Pow":        always(pow),
	"Max":        always(several(arithmetic(kernels.Maximum, kernels.IntegerMax))),
	"Min":        always(several(arithmetic(kernels.Minimum, kernels.IntegerMin))),
	"Sum":        always(several(floatBinary(kernels.Add))),
	"Mean":       always(mean),
	"Clip":       {{since: 6, apply: clip6}, {since: 11, apply: clip}},
	"Neg":        always(neg),
	"Abs":        always(unary(kernels.Abs)),
	"Sign":       always(unary(kernels.Sign)),
	"Exp":        always(unary(kernels.Exp)),
	"Log":        always(unary(kernels.Log)),
	"Sqrt":       always(unary(kernels.Sqrt)),
	"Reciprocal": always(unary(kernels.Inverse)),
	"Sin":        always(unary(kernels.Sin)),
	"Cos":        always(unary(kernels.Cos)),
	"Ceil":       always(unary(kernels.Ceil)),
	"Floor":      always(unary(kernels.Floor)),
	"Erf":        always(unary(kernels.Erf)),
	"Tan": always(func(c *call) []*value {
		x := c.float(0)
		return c.one(c.two(kernels.Div, c.of(kernels.Sin, x), c.of(kernels.Cos, x)))
	}),
	"Sinh": always(func(c *call) []*value { return c.one(c.exponentials(c.float(0), -0.5)) }),
	"Cosh": always(func(c *call) []*value { return c.one(c.exponentials(c.float(0), 0.5)) }),
}

// unary is a function of each element.
func unary(op *kernels.Op) ruleFunc {
	return func(c *call) []*value { return c.one(c.of(op, c.float(0))) }
}

// isInteger reports whether v is computed as integers.
func (c *call) isInteger(v *value) bool {
	return !c.folding && !v.typ.IsFloat() && v.typ != proto.Bool
}

// wrapped are the types of integers that are computed in, with the type whose range results wrap
// around: as in Go.
var wrapped = map[proto.DataType]arena.DType{proto.Int64: arena.Int64, proto.Int32: arena.Int32, proto.Uint8: arena.Uint8}

// integer applies a function of two integers of a type, which is one of wrapped.
func (c *call) integer(f kernels.IntegerFunc, typ proto.DataType, a, b kernels.Value) kernels.Value {
	to, ok := wrapped[typ]
	if !ok {
		refuse("arithmetic with %v", typ)
	}
	return c.widen(c.Apply(kernels.Integer, kernels.IntegerAttrs{Func: f, To: to}, a, b))
}

// index applies a function of two indices, or compares them.
func (c *call) index(f kernels.IntegerFunc, a, b kernels.Value) kernels.Value {
	return c.integer(f, proto.Int64, a, b)
}

// widen stores integers in 64 bits, as all are between operations.
func (c *call) widen(x kernels.Value) kernels.Value {
	if c.Spec(x).Type == arena.Int64 {
		return x
	}
	return c.Apply(kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerConvert, To: arena.Int64}, x)
}

// arithmetic is an operation of two operands, of floats or of integers.
func arithmetic(op *kernels.Op, f kernels.IntegerFunc) ruleFunc {
	return func(c *call) []*value {
		a, b := c.must(0), c.must(1)
		if a.typ != b.typ {
			mismatch("operands of types %v and %v", a.typ, b.typ)
		}
		if c.isInteger(a) {
			return c.one(c.integer(f, a.typ, c.node(0), c.node(1)))
		}
		return c.one(c.two(op, c.float(0), c.float(1)))
	}
}

// floatBinary is an operation of two operands of floats.
func floatBinary(op *kernels.Op) ruleFunc {
	return func(c *call) []*value { return c.one(c.two(op, c.float(0), c.float(1))) }
}

// several applies a rule of two operands to any number of them, from the left.
func several(f ruleFunc) ruleFunc {
	return func(c *call) []*value {
		all := c.in
		if len(all) == 1 {
			return c.one(c.node(0))
		}
		for _, v := range all[min(1, len(all)):] {
			c.in = []*value{c.in[0], v}
			c.in = f(c)
		}
		if len(c.in) == 0 {
			badAttribute("no operands")
		}
		return c.in
	}
}

func mean(c *call) []*value {
	n := len(c.in)
	if n == 0 {
		badAttribute("no operands")
	}
	y := several(floatBinary(kernels.Add))(c)[0]
	return []*value{c.out(c.affine(y.at, 1/float64(n), 0), y.typ)}
}

// powers are exponents with an operation of their own.
var powers = map[float64]*kernels.Op{-1: kernels.Inverse, -0.5: kernels.InverseSqrt, 0.5: kernels.Sqrt, 2: kernels.Square, 3: kernels.Cube}

// pow is a power. The exponent may have another type than the base, which is that of the result.
func pow(c *call) []*value {
	if x, e := c.must(0), c.must(1); c.isInteger(x) {
		if !c.isInteger(e) {
			refuse("a power of %v with an exponent of %v", x.typ, e.typ)
		}
		return c.one(c.integer(kernels.IntegerPow, x.typ, c.node(0), c.node(1)))
	}
	x, e := c.float(0), c.must(1)
	if e.con != nil && e.shape.Elems() == 1 && len(e.shape) <= len(c.shape(0)) && !c.b.isParameter(e, data) {
		if p := e.elements(c.b.limit)[0]; powers[p] != nil {
			return c.one(c.of(powers[p], x))
		} else if p == 1 {
			return c.one(x)
		}
	}
	return c.one(c.two(kernels.Pow, x, c.as(c.node(1), c.Spec(x).Type)))
}

func neg(c *call) []*value {
	x := c.must(0)
	if c.isInteger(x) {
		at := c.node(0)
		return c.one(c.integer(kernels.IntegerSub, x.typ, c.scalar(at, 0), at))
	}
	return c.one(c.of(kernels.Neg, c.float(0)))
}

// clip6 limits by attributes.
func clip6(c *call) []*value {
	return c.one(c.clamp(c.float(0), c.attrFloat("min", math.Inf(-1)), c.attrFloat("max", math.Inf(1))))
}

// clip limits by operands, which may be left out.
func clip(c *call) []*value {
	x := c.must(0)
	y := c.node(0)
	for i, f := range []struct {
		float   *kernels.Op
		integer kernels.IntegerFunc
	}{{kernels.Maximum, kernels.IntegerMax}, {kernels.Minimum, kernels.IntegerMin}} {
		v := c.arg(1 + i)
		if v == nil {
			continue
		}
		if v.shape.Elems() != 1 {
			mismatch("a limit of %v must have 1 element", v.shape)
		}
		limit := c.reshape(c.plain(1+i), kernels.Shape{})
		if c.isInteger(x) {
			y = c.integer(f.integer, x.typ, y, limit)
		} else {
			c.float(0)
			y = c.two(f.float, y, limit)
		}
	}
	return c.one(y)
}

// exponentials is (eˣ)/2 + e⁻ˣ·k.
func (c *call) exponentials(x kernels.Value, k float64) kernels.Value {
	return c.plus(c.affine(c.of(kernels.Exp, x), 0.5, 0), c.affine(c.of(kernels.Exp, c.of(kernels.Neg, x)), k, 0))
}
