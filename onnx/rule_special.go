package onnx

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Functions that few models have.
var specialRules = map[string][]rule{
	"Atan":  {{since: 7, apply: func(c *call) []*value { return c.one(c.arctan(c.float(0))) }}},
	"Asin":  {{since: 7, apply: func(c *call) []*value { return c.one(c.arcsin(c.float(0))) }}},
	"Acos":  {{since: 7, apply: func(c *call) []*value { return c.one(c.affine(c.arcsin(c.float(0)), -1, math.Pi/2)) }}},
	"Asinh": {{since: 9, apply: arsinh}},
	"Acosh": {{since: 9, apply: func(c *call) []*value {
		x := c.float(0)
		root := c.mul(c.of(kernels.Sqrt, c.affine(x, 1, -1)), c.of(kernels.Sqrt, c.affine(x, 1, 1)))
		return c.one(c.orLogTwice(x, c.of(kernels.Log, c.plus(x, root))))
	}}},
	"Atanh": {{since: 9, apply: func(c *call) []*value {
		x := c.float(0)
		up, down := c.of(kernels.Log1p, x), c.of(kernels.Log1p, c.of(kernels.Neg, x))
		return c.one(c.affine(c.two(kernels.Sub, up, down), 0.5, 0))
	}}},
	"Round":   {{since: 11, apply: roundRule}},
	"Hardmax": {{since: 1, apply: hardmaxFlat}, {since: 13, apply: hardmax}},
	"CumProd": {{since: 26, apply: cumProd}},
	"LRN":     {{since: 1, apply: lrn}},
	"Col2Im":  {{since: 18, apply: col2Im}},
}

// arctan is a polynomial for |x| ≤ 1, and π/2 - arctan(1/|x|) beyond, with the sign of x. The
// coefficients are those of Abramowitz and Stegun, 4.4.49, whose error is 2e-8.
func (c *call) arctan(x kernels.Value) kernels.Value {
	if c.Spec(x).Type != arena.Float32 {
		refuse("arctan in %v", c.Spec(x).Type)
	}
	size := c.of(kernels.Abs, x)
	large := c.two(kernels.Greater, size, c.scalar(x, 1))
	t := c.Apply(kernels.Where, nil, large, c.of(kernels.Inverse, size), size)
	square := c.of(kernels.Square, t)
	coefficients := []float64{0.0028662257, -0.0161657367, 0.0429096138, -0.0752896400, 0.1065626393, -0.1420889944, 0.1999355085, -0.3333314528, 1}
	y := c.affine(square, coefficients[0], coefficients[1])
	for _, k := range coefficients[2:] {
		y = c.affine(c.mul(y, square), 1, k)
	}
	y = c.mul(y, t)
	y = c.Apply(kernels.Where, nil, large, c.affine(y, -1, math.Pi/2), y)
	return c.mul(c.of(kernels.Sign, x), y)
}

// arcsin is arctan(x/√(1 - x²)).
func (c *call) arcsin(x kernels.Value) kernels.Value {
	root := c.of(kernels.Sqrt, c.mul(c.affine(x, -1, 1), c.affine(x, 1, 1)))
	return c.arctan(c.two(kernels.Div, x, root))
}

// arsinh is log(|x| + √(x² + 1)) with the sign of x, as log1p(|x| + x²/(1 + √(x² + 1))).
func arsinh(c *call) []*value {
	x := c.float(0)
	size := c.of(kernels.Abs, x)
	// x²/(1+√(1+x²)) as |x|/(1/|x|+√(1+1/x²)): the square of a large x would be infinite.
	part := c.two(kernels.Div, c.scalar(x, 1), size)
	root := c.of(kernels.Sqrt, c.affine(c.of(kernels.Square, part), 1, 1))
	y := c.of(kernels.Log1p, c.plus(size, c.two(kernels.Div, size, c.plus(part, root))))
	return c.one(c.mul(c.of(kernels.Sign, x), c.orLogTwice(size, y)))
}

// orLogTwice is y, and log(2·x) where x is so large that both functions above are that. 2·x itself
// may be infinite.
func (c *call) orLogTwice(x, y kernels.Value) kernels.Value {
	large := c.two(kernels.Greater, x, c.scalar(x, 1<<30))
	return c.Apply(kernels.Where, nil, large, c.affine(c.of(kernels.Log, x), 1, math.Ln2), y)
}

func roundRule(c *call) []*value { return c.one(c.round(c.float(0))) }

// round rounds to the nearest integer, and to the even one of two.
func (c *call) round(x kernels.Value) kernels.Value {
	down := c.of(kernels.Floor, x)
	rest := c.two(kernels.Sub, x, down)
	odd := c.two(kernels.Sub, down, c.affine(c.of(kernels.Floor, c.affine(down, 0.5, 0)), 2, 0)) // 1 or 0
	half := c.scalar(x, 0.5)
	up := c.two(kernels.Maximum, c.two(kernels.Greater, rest, half), c.mul(c.two(kernels.Equal, rest, half), odd))
	// From 2^23 on a float32 is whole; x also stays what it is where it is not finite.
	return c.Apply(kernels.Where, nil, c.two(kernels.Less, c.of(kernels.Abs, x), c.scalar(x, 1<<23)), c.plus(down, up), x)
}

// hardmax is 1 at the first of the largest elements along an axis, and 0 elsewhere.
func hardmax(c *call) []*value {
	return c.one(c.hard(c.float(0), axis(c.attrInt("axis", -1), len(c.shape(0)))))
}

// hardmaxFlat is hardmax over all axes from one on.
func hardmaxFlat(c *call) []*value {
	s := c.shape(0)
	k := axis(c.attrInt("axis", 1), len(s))
	return c.one(c.reshape(c.hard(c.reshape(c.float(0), kernels.Shape{s[:k].Elems(), s[k:].Elems()}), 1), s))
}

func (c *call) hard(x kernels.Value, axis int) kernels.Value {
	s := c.Spec(x).Shape
	index := c.ApplyAll(kernels.TopK, kernels.TopKAttrs{Axis: axis, K: 1}, x)[1]
	hit := c.index(kernels.IntegerEqual, index, c.numbered(len(s), axis, s[axis]))
	return c.as(hit, c.Spec(x).Type)
}

// cumProd is a running product: each round multiplies by the product of as many elements before.
func cumProd(c *call) []*value {
	x, s := c.float(0), c.shape(0)
	k := axis(int(c.number(1, "the axis")), len(s))
	shift := func(x kernels.Value, by int) kernels.Value {
		if by >= s[k] {
			return c.expand(c.scalar(x, 1), s)
		}
		lo, hi := make([]int, len(s)), make([]int, len(s))
		if lo[k], hi[k] = by, -by; c.attrBool("reverse", false) {
			lo[k], hi[k] = -by, by
		}
		return c.padConstant(x, lo, hi, 1)
	}
	if c.attrBool("exclusive", false) {
		x = shift(x, 1)
	}
	for by := 1; by < s[k]; by *= 2 {
		x = c.mul(x, shift(x, by))
	}
	return c.one(x)
}

// lrn divides by a power of the mean of squares of neighbouring channels.
func lrn(c *call) []*value {
	x, s, size := c.float(0), c.shape(0), c.attrInt("size", 0)
	if len(s) < 3 || size < 1 || size > math.MaxInt32 {
		badAttribute("%d channels of %v", size, s)
	}
	a := kernels.PoolAttrs{Kernel: [2]int{size, 1}, Stride: [2]int{1, 1}, Pad: [2]int{(size - 1) / 2}, PadEnd: [2]int{size / 2}, CountPad: true}
	square := c.reshape(c.of(kernels.Square, x), kernels.Shape{s[0], 1, s[1], s[2:].Elems()})
	mean := c.reshape(c.Apply(kernels.AvgPool, a, square), s)
	base := c.affine(mean, c.attrFloat("alpha", 0.0001), c.attrFloat("bias", 1))
	return c.one(c.two(kernels.Div, x, c.two(kernels.Pow, base, c.scalar(x, c.attrFloat("beta", 0.75)))))
}

// col2Im adds windows to the pixels of an image.
func col2Im(c *call) []*value {
	s, size, kernel := c.shape(0), c.ints(1, "the size of the image"), c.ints(2, "the size of a window")
	if len(s) != 3 || len(size) != 2 || len(kernel) != 2 {
		refuse("an image of %d dimensions: only 2 are known", len(size))
	}
	w := window{stride: c.pair("strides", 1, false), dilation: c.pair("dilations", 1, false)}
	c.readPads(&w)
	if w.lo != w.hi {
		refuse("pads %v and %v, which differ", w.lo, w.hi)
	}
	a := kernels.Col2ImAttrs{Size: [2]int(size), Im2ColAttrs: kernels.Im2ColAttrs{Kernel: [2]int(kernel), Stride: w.stride, Dilation: w.dilation, Pad: w.lo}}
	var out kernels.Shape
	for i := range 2 {
		if kernel[i] < 1 || size[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || max(kernel[i], size[i]) > math.MaxInt32 {
			badAttribute("a window of %v of an image of %v", kernel, size)
		}
		out = append(out, (size[i]+2*w.lo[i]-w.dilation[i]*(kernel[i]-1)-1)/w.stride[i]+1)
	}
	if out[0] < 1 || out[1] < 1 || out.Elems() != s[2] {
		mismatch("%v has %d windows, the image %v", s, s[2], out)
	}
	rows := c.reshape(c.transpose(c.float(0), []int{0, 2, 1}), kernels.Shape{s[0], out[0], out[1], s[1]})
	return c.one(c.Apply(kernels.Col2Im, a, rows))
}
