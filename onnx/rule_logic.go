package onnx

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Comparisons, logic, choice and conversion. A bool is 0 or 1 in float32.
var logicRules = map[string][]rule{
	"Equal":          always(compare(kernels.Equal, kernels.IntegerEqual, false)),
	"Less":           always(compare(kernels.Less, kernels.IntegerLess, false)),
	"LessOrEqual":    always(compare(kernels.LessEqual, kernels.IntegerLessEqual, false)),
	"Greater":        always(compare(kernels.Greater, kernels.IntegerLess, true)),
	"GreaterOrEqual": always(compare(kernels.GreaterEqual, kernels.IntegerLessEqual, true)),
	"Not":            always(func(c *call) []*value { return c.bools(c.affine(c.bool(0), -1, 1)) }),
	"And":            always(func(c *call) []*value { return c.bools(c.mul(c.bool(0), c.bool(1))) }),
	"Or":             always(func(c *call) []*value { return c.bools(c.two(kernels.Maximum, c.bool(0), c.bool(1))) }),
	"Xor":            always(func(c *call) []*value { return c.bools(c.two(kernels.NotEqual, c.bool(0), c.bool(1))) }),
	"IsNaN": always(func(c *call) []*value {
		x := c.float(0)
		return c.bools(c.two(kernels.NotEqual, x, x))
	}),
	"IsInf":    always(isInf),
	"Where":    always(where),
	"Cast":     {{since: 6, apply: cast, fold: foldCast}},
	"CastLike": {{since: 15, apply: castLike}},
}

// bool is the node of operand i, a bool.
func (c *call) bool(i int) kernels.Value {
	if t := c.must(i).typ; t != proto.Bool {
		mismatch("operand %d is of type %v, must be bool", i, t)
	}
	return c.plain(i)
}

// bools returns the only result, 0 and 1 in any type of floats.
func (c *call) bools(v kernels.Value) []*value {
	if t := c.Spec(v).Type; t == arena.Float64 && !c.folding || t == arena.Int64 {
		v = c.as(v, arena.Float32)
	}
	return []*value{c.out(v, proto.Bool)}
}

// compare compares floats, integers or bools. Integers have a less, whose operands are exchanged
// for greater.
func compare(op *kernels.Op, f kernels.IntegerFunc, exchange bool) ruleFunc {
	return func(c *call) []*value {
		a, b := c.must(0), c.must(1)
		if a.typ != b.typ {
			mismatch("operands of types %v and %v", a.typ, b.typ)
		}
		x, y := c.plain(0), c.plain(1)
		if !c.isInteger(a) {
			return c.bools(c.two(op, x, y))
		}
		if exchange {
			x, y = y, x
		}
		return c.bools(c.index(f, x, y))
	}
}

func isInf(c *call) []*value {
	x, up, down := c.float(0), c.attrBool("detect_positive", true), c.attrBool("detect_negative", true)
	inf := c.scalar(x, math.Inf(1))
	switch {
	case up && down:
		x = c.of(kernels.Abs, x)
	case down:
		x = c.of(kernels.Neg, x)
	case !up:
		inf = c.scalar(x, math.NaN()) // equal to nothing
	}
	return c.bools(c.two(kernels.Equal, x, inf))
}

// where chooses elements. Its operands are no parameters: they are masks in all exports.
func where(c *call) []*value {
	cond, a, b := c.bool(0), c.must(1), c.must(2)
	if a.typ != b.typ {
		mismatch("operands of types %v and %v", a.typ, b.typ)
	}
	return []*value{c.out(c.Apply(kernels.Where, nil, cond, c.plain(1), c.plain(2)), a.typ)}
}

func cast(c *call) []*value { return c.cast(proto.DataType(c.attrInt("to", 0))) }

func castLike(c *call) []*value {
	to := c.must(1).typ
	if c.folding {
		return c.foldCast(to)
	}
	return c.cast(to)
}

// cast converts operand 0.
func (c *call) cast(to proto.DataType) []*value {
	x := c.must(0)
	if to == x.typ {
		return []*value{x}
	}
	result := func(v kernels.Value) []*value { return []*value{c.out(v, to)} }
	at := c.node(0)
	from, stored := c.Spec(at).Type, storage(to)
	switch {
	case to == proto.Bool && from.Float():
		return c.bools(c.two(kernels.NotEqual, at, c.scalar(at, 0)))
	case to == proto.Bool:
		return c.bools(c.index(kernels.IntegerNotEqual, at, c.scalar(at, 0)))
	case stored.Float():
		return result(c.as(at, stored))
	case from.Float():
		at = c.of(kernels.Truncate, at)
	}
	narrow, ok := wrapped[to]
	if !ok {
		refuse("a cast to %v", to)
	}
	if narrow != arena.Int64 {
		at = c.widen(c.Apply(kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerConvert, To: narrow}, at))
	}
	return result(at)
}

func foldCast(c *call) []*value { return c.foldCast(proto.DataType(c.attrInt("to", 0))) }

// foldCast converts a constant.
func (c *call) foldCast(to proto.DataType) []*value {
	x := c.must(0)
	if to.Bits() == 0 || to == proto.Float16 || to == proto.BFloat16 {
		refuse("a cast to %v", to)
	}
	if to == x.typ {
		return []*value{x}
	}
	data := make([]float64, x.shape.Elems())
	for i, v := range x.elements(c.b.limit) {
		data[i] = round(to, v)
	}
	return []*value{known(to, x.shape, data)}
}
