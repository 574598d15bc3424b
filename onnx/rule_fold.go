package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Operators whose results are always known at import: constants, and arithmetic with shapes.
var foldRules = map[string][]rule{
	"Constant":        {{since: 1, fold: constantRule}},
	"ConstantOfShape": {{since: 9, fold: constantOfShape}},
	"Range":           {{since: 11, fold: rangeRule}},
	"Shape":           {{since: 1, shapes: shapeRule}},
	"Size": {{since: 1, shapes: func(c *call) []*value {
		return []*value{known(proto.Int64, kernels.Shape{}, []float64{float64(c.shape(0).Elems())})}
	}}},
	"NonZero": {{since: 9, fold: nonZero}},
}

// constantRule is the value of an attribute.
func constantRule(c *call) []*value {
	if len(c.n.Attributes) != 1 {
		badAttribute("%d attributes, must be 1", len(c.n.Attributes))
	}
	switch a := &c.n.Attributes[0]; a.Name {
	case "value":
		if a.T == nil {
			break
		}
		ensure(a.T.Check())
		return []*value{ofTensor(a.T)}
	case "value_int":
		return []*value{known(proto.Int64, kernels.Shape{}, []float64{float64(a.I)})}
	case "value_float":
		return []*value{known(proto.Float, kernels.Shape{}, []float64{float64(a.F)})}
	case "value_ints":
		data := make([]float64, len(a.Ints))
		for i, x := range a.Ints {
			checkInteger(x)
			data[i] = float64(x)
		}
		return []*value{known(proto.Int64, kernels.Shape{len(data)}, data)}
	case "value_floats":
		data := make([]float64, len(a.Floats))
		for i, x := range a.Floats {
			data[i] = float64(x)
		}
		return []*value{known(proto.Float, kernels.Shape{len(data)}, data)}
	}
	refuse("a constant of attribute %q", c.n.Attributes[0].Name)
	return nil
}

// sizes returns operand i as a shape, each dimension 0 or more, with at most limit elements.
func (c *call) sizes(i int, what string) kernels.Shape {
	shape := kernels.Shape(c.ints(i, what))
	n := 1
	for _, d := range shape {
		if d < 0 {
			badAttribute("%s is %v", what, shape)
		}
		if d > 0 && n > c.b.limit/d && !slices.Contains(shape, 0) {
			refuse("%s is %v: more than %d elements: see Options.FoldElements", what, shape, c.b.limit)
		}
		n *= d
	}
	return shape
}

func constantOfShape(c *call) []*value {
	shape, typ, x := c.sizes(0, "the shape"), proto.Float, 0.0
	if a := c.n.Attribute("value"); a != nil {
		if a.T == nil {
			badAttribute("value is no tensor")
		}
		ensure(a.T.Check())
		if n, _ := a.T.Elements(); n != 1 {
			badAttribute("value has %d elements, must have 1", n)
		}
		typ, x = a.T.Type, a.T.Float64(0)
	}
	return []*value{known(typ, shape, slices.Repeat([]float64{x}, shape.Elems()))}
}

func rangeRule(c *call) []*value {
	start, end, step := c.number(0, "the start"), c.number(1, "the limit"), c.number(2, "the delta")
	n := math.Ceil((end - start) / step)
	if step == 0 || math.IsNaN(n) || n > float64(c.b.limit) {
		refuse("range of %v to %v by %v: see Options.FoldElements", start, end, step)
	}
	data := make([]float64, max(0, int(n)))
	for i := range data {
		data[i] = round(c.must(0).typ, start+float64(i)*step)
	}
	return []*value{known(c.must(0).typ, kernels.Shape{len(data)}, data)}
}

// shapeRule is the shape of the operand, or a part of it.
func shapeRule(c *call) []*value {
	s := c.shape(0)
	bound := func(name string, def int) int {
		k := c.attrInt(name, def)
		if k < 0 {
			k += len(s)
		}
		return min(max(k, 0), len(s))
	}
	start, end := bound("start", 0), bound("end", len(s))
	return []*value{known64(s[start:max(start, end)]...)}
}

// nonZero lists the places of elements that are not 0, an axis a row.
func nonZero(c *call) []*value {
	data, s := c.constant(0, "the operand"), c.shape(0)
	if len(s) == 0 {
		s = kernels.Shape{1}
	}
	var places []int
	for i, x := range data {
		if x != 0 {
			places = append(places, i)
		}
	}
	out := make([]float64, 0, len(s)*len(places))
	for axis := range s {
		step := s[axis+1:].Elems()
		for _, i := range places {
			out = append(out, float64(i/step%s[axis]))
		}
	}
	return []*value{known(proto.Int64, kernels.Shape{len(s), len(places)}, out)}
}

// elementwiseFold is a fold of one or two operands that broadcast.
func elementwiseFold(f func(c *call, a, b float64) float64) ruleFunc {
	return func(c *call) []*value {
		a, b := c.must(0), c.must(1)
		shape := broadcast(a.shape, b.shape)
		x, y := c.spread(0, shape), c.spread(1, shape)
		out := make([]float64, len(x))
		for i := range out {
			out[i] = round(a.typ, f(c, x[i], y[i]))
		}
		return []*value{known(a.typ, shape, out)}
	}
}

// spread returns the elements of operand i, broadcast.
func (c *call) spread(i int, shape kernels.Shape) []float64 {
	if err := (kernels.Spec{Type: storage(proto.Float), Shape: shape}).Check(); err != nil || shape.Elems() > c.b.limit {
		refuse("a constant of %v: see Options.FoldElements", shape)
	}
	v := c.must(i)
	x := kernels.Tensor{Spec: kernels.Spec{Type: storage(proto.Double), Shape: v.shape}, Data: c.constant(i, "the operand")}
	if v.shape.Equal(shape) {
		return x.Data
	}
	y, err := kernels.Eval(kernels.Broadcast, kernels.BroadcastAttrs{Shape: shape}, []kernels.Tensor{x})
	ensure(err)
	return y[0].Data
}

// foldDiv divides; integers are truncated.
func foldDiv(c *call, a, b float64) float64 {
	if b == 0 && !c.must(0).typ.IsFloat() {
		badAttribute("division of the integer %v by 0", a)
	}
	return a / b
}

// foldMod is the remainder: with the sign of b, or with fmod that of a.
func foldMod(c *call, a, b float64) float64 {
	if b == 0 && !c.must(0).typ.IsFloat() {
		badAttribute("remainder of the integer %v and 0", a)
	}
	if c.attrBool("fmod", false) {
		return math.Mod(a, b)
	}
	return a - b*math.Floor(a/b)
}
