package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Reductions, along the axes of an attribute or, in newer versions, of an operand.
var reduceRules = map[string][]rule{
	"ReduceSum":  {{since: 1, apply: reduction(sumOf, attributeAxes)}, {since: 13, apply: reduction(sumOf, operandAxes)}},
	"ReduceMean": reductions(meanOf),
	"ReduceMax":  reductions(maxOf),
	"ReduceMin": reductions(func(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
		return c.of(kernels.Neg, maxOf(c, c.of(kernels.Neg, x), a))
	}),
	"ReduceProd": reductions(productOf),
	"ReduceL1": reductions(func(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
		return sumOf(c, c.of(kernels.Abs, x), a)
	}),
	"ReduceL2": reductions(func(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
		return c.of(kernels.Sqrt, sumOf(c, c.of(kernels.Square, x), a))
	}),
	"ReduceSumSquare": reductions(func(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
		return sumOf(c, c.of(kernels.Square, x), a)
	}),
	"ReduceLogSum": reductions(func(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
		return c.of(kernels.Log, sumOf(c, x, a))
	}),
	"ReduceLogSumExp":           reductions(logSumExpOf),
	"GlobalAveragePool":         always(globalPool(meanOf)),
	"GlobalMaxPool":             always(globalPool(maxOf)),
	"LpNormalization":           always(lpNormalization),
	"MeanVarianceNormalization": {{since: 9, apply: meanVariance}},
}

// A reduceFunc reduces axes.
type reduceFunc func(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value

func sumOf(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
	return c.Apply(kernels.Sum, a, x)
}

func meanOf(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
	return c.Apply(kernels.Mean, a, x)
}

func maxOf(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
	return c.Apply(kernels.Max, a, x)
}

// reductions is the list of rules of most reductions.
func reductions(f reduceFunc) []rule {
	return []rule{{since: 1, apply: reduction(f, attributeAxes)}, {since: 18, apply: reduction(f, operandAxes)}}
}

func reduction(f reduceFunc, which func(c *call) []int) ruleFunc {
	return func(c *call) []*value {
		s, list := c.shape(0), which(c)
		a := kernels.ReduceAttrs{Keep: c.attrBool("keepdims", true)}
		if len(list) == 0 && c.attrBool("noop_with_empty_axes", false) {
			a.Keep = true
			if c.isInteger(c.must(0)) {
				refuse("a reduction of integers along no axis")
			}
			for i := range s { // each element alone, along a new axis
				list = append(list, i)
			}
			x := c.reshape(c.float(0), append(append(kernels.Shape{}, s...), 1))
			y := f(c, x, kernels.ReduceAttrs{Axes: []int{len(s)}})
			return c.one(y)
		}
		for i, in := range axes(list, len(s)) {
			if in || len(list) == 0 {
				a.Axes = append(a.Axes, i)
			}
		}
		if c.isInteger(c.must(0)) {
			return c.one(c.reduceIntegers(a))
		}
		if s.Elems() == 0 {
			return c.reduceNothing(a)
		}
		x := c.float(0)
		if len(s) == 0 {
			x, a = c.reshape(x, kernels.Shape{1}), kernels.ReduceAttrs{Axes: []int{0}}
		}
		return c.one(f(c, x, a))
	}
}

// reduceIntegers is a sum, or the largest or smallest, of integers.
func (c *call) reduceIntegers(a kernels.ReduceAttrs) kernels.Value {
	typ, x := c.must(0).typ, c.node(0)
	to, ok := wrapped[typ]
	f, known := map[string]kernels.IntegerFunc{
		"ReduceSum": kernels.IntegerAdd, "ReduceMax": kernels.IntegerMax, "ReduceMin": kernels.IntegerMin}[c.n.Op]
	if !ok || !known || len(c.shape(0)) == 0 || c.shape(0).Elems() == 0 {
		refuse("%s of %v %v", c.n.Op, typ, c.shape(0))
	}
	// The smallest of x is not x of the largest not x, where not x is -1 - x.
	not := func(x kernels.Value) kernels.Value {
		return c.index(kernels.IntegerSub, c.scalar(x, -1), x)
	}
	smallest := f == kernels.IntegerMin
	if smallest {
		x, f, to = not(x), kernels.IntegerMax, arena.Int64
	}
	y := c.Apply(kernels.IntegerReduce, kernels.IntegerReduceAttrs{Func: f, ReduceAttrs: a, To: to}, x)
	if smallest {
		y = not(y)
	}
	return c.widen(y)
}

// reduceNothing is the reduction of an operand without elements: each result is that of no numbers.
func (c *call) reduceNothing(a kernels.ReduceAttrs) []*value {
	of := map[string]float64{"ReduceSum": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0, "ReduceProd": 1, "ReduceMean": math.NaN(),
		"ReduceMax": math.Inf(-1), "ReduceMin": math.Inf(1), "ReduceLogSum": math.Inf(-1), "ReduceLogSumExp": math.Inf(-1)}
	x, ok := of[c.n.Op]
	typ := c.must(0).typ
	if !ok || !typ.IsFloat() {
		refuse("%s of no elements of %v", c.n.Op, typ)
	}
	shape := reducedShape(c.shape(0), a)
	if shape.Elems() > c.b.limit {
		refuse("%v: see Options.FoldElements", shape)
	}
	return []*value{known(typ, shape, slices.Repeat([]float64{x}, shape.Elems()))}
}

// reducedShape returns what a reduction along axes 0, 1, … makes of a shape.
func reducedShape(s kernels.Shape, a kernels.ReduceAttrs) kernels.Shape {
	to := kernels.Shape{}
	for i, d := range s {
		switch {
		case !slices.Contains(a.Axes, i):
			to = append(to, d)
		case a.Keep:
			to = append(to, 1)
		}
	}
	return to
}

// productOf multiplies halves until one is left.
func productOf(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
	s := c.Spec(x).Shape
	to, perm, count := reducedShape(s, a), slices.Clone(a.Axes), 1
	for i, d := range s {
		if slices.Contains(a.Axes, i) {
			count *= d
		} else {
			perm = append(perm, i)
		}
	}
	x = c.reshape(c.transpose(x, perm), kernels.Shape{count, to.Elems()})
	for ; count > 1; count = (count + 1) / 2 {
		half := count / 2
		y := c.mul(c.slice(x, 0, 0, half), c.slice(x, 0, half, 2*half))
		if count%2 == 1 {
			y = c.concat(0, y, c.slice(x, 0, count-1, count))
		}
		x = y
	}
	return c.reshape(x, to)
}

// logSumExpOf is m + log Σexp(x - m), where m is the largest element, or a finite number next to
// it.
func logSumExpOf(c *call, x kernels.Value, a kernels.ReduceAttrs) kernels.Value {
	most, least := math.MaxFloat32, 0x1p-126
	if c.Spec(x).Type == arena.Float64 {
		most, least = math.MaxFloat64, 0x1p-1022
	}
	keep := kernels.ReduceAttrs{Axes: a.Axes, Keep: true}
	largest := maxOf(c, x, keep)
	largest = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: c.Spec(largest).Shape, Detach: true}, largest)
	m := c.clamp(largest, -most, most)
	sum := sumOf(c, c.of(kernels.Exp, c.two(kernels.Sub, x, m)), keep)
	y := c.plus(m, c.of(kernels.Log, c.two(kernels.Maximum, sum, c.scalar(x, least))))
	y = c.Apply(kernels.Where, nil, sum, y, largest)
	return c.reshape(y, reducedShape(c.Spec(x).Shape, a))
}

// globalPool reduces the pixels of each channel.
func globalPool(f reduceFunc) ruleFunc {
	return func(c *call) []*value {
		a := kernels.ReduceAttrs{Keep: true}
		if len(c.shape(0)) < 3 {
			mismatch("%v has no pixels", c.shape(0))
		}
		for i := 2; i < len(c.shape(0)); i++ {
			a.Axes = append(a.Axes, i)
		}
		return c.one(f(c, c.float(0), a))
	}
}

// lpNormalization divides by the norm along an axis; zeros stay zeros.
func lpNormalization(c *call) []*value {
	x := c.float(0)
	a := kernels.ReduceAttrs{Axes: []int{axis(c.attrInt("axis", -1), len(c.shape(0)))}, Keep: true}
	var norm kernels.Value
	switch p := c.attrInt("p", 2); p {
	case 1:
		norm = sumOf(c, c.of(kernels.Abs, x), a)
	case 2:
		norm = c.of(kernels.Sqrt, sumOf(c, c.of(kernels.Square, x), a))
	default:
		badAttribute("p is %d", p)
	}
	// A norm of 0 becomes 1: 0/1 is 0.
	zero := c.two(kernels.Equal, norm, c.scalar(x, 0))
	return c.one(c.two(kernels.Div, x, c.plus(norm, zero)))
}

// meanVariance takes off the mean and divides by the deviation.
func meanVariance(c *call) []*value {
	list := c.attrInts("axes")
	if list == nil {
		list = []int{0, 2, 3}
	}
	a := kernels.ReduceAttrs{Keep: true}
	for i, in := range axes(list, len(c.shape(0))) {
		if in {
			a.Axes = append(a.Axes, i)
		}
	}
	x := c.float(0)
	d := c.two(kernels.Sub, x, meanOf(c, x, a))
	deviation := c.of(kernels.Sqrt, meanOf(c, c.of(kernels.Square, d), a))
	return c.one(c.two(kernels.Div, d, c.affine(deviation, 1, 1e-9)))
}
