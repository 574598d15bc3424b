package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Products of matrices.
var matrixRules = map[string][]rule{
	"MatMul": always(func(c *call) []*value { return c.one(c.matmul(c.weight(0), c.weight(1))) }),
	"Gemm":   always(gemm),
	"CumSum": {{since: 11, apply: cumSum}},
	"Einsum": {{since: 12, apply: einsum}},
}

// untransposed returns what v is the transposed of, along its last two axes. A product needs no
// transposed copy.
func (c *call) untransposed(v kernels.Value) (kernels.Value, bool) {
	s := c.maker(v)
	if s == nil || s.op != kernels.Transpose {
		return v, false
	}
	perm := s.attrs.(kernels.TransposeAttrs).Perm
	n := len(perm)
	if n < 2 || perm[n-2] != n-1 || perm[n-1] != n-2 {
		return v, false
	}
	for i, p := range perm[:n-2] {
		if i != p {
			return v, false
		}
	}
	return s.in[0], true
}

// matmul is the product of matrices in the last two axes of a and b; a vector is a row or a column.
// Leading axes broadcast.
func (c *call) matmul(a, b kernels.Value) kernels.Value {
	as, bs := c.Spec(a).Shape, c.Spec(b).Shape
	if len(as) == 0 || len(bs) == 0 {
		mismatch("a product of %v and %v", as, bs)
	}
	out := kernels.Shape{}
	if len(as) == 1 {
		a = c.reshape(a, kernels.Shape{1, as[0]})
	} else {
		out = append(out, as[len(as)-2])
	}
	if len(bs) == 1 {
		b = c.reshape(b, kernels.Shape{bs[0], 1})
	} else {
		out = append(out, bs[len(bs)-1])
	}
	as, bs = c.Spec(a).Shape, c.Spec(b).Shape
	lead := broadcast(as[:len(as)-2], bs[:len(bs)-2])
	m, k, n := as[len(as)-2], as[len(as)-1], bs[len(bs)-1]
	if bs[len(bs)-2] != k {
		mismatch("a product of %v and %v", as, bs)
	}
	var y kernels.Value
	if bs[:len(bs)-2].Elems() == 1 { // one product of all rows of a
		b, t := c.untransposed(b)
		matrix := kernels.Shape{k, n}
		if t {
			matrix = kernels.Shape{n, k}
		}
		rows := as[:len(as)-2].Elems() * m
		y = c.Apply(kernels.MatMul, kernels.MatMulAttrs{TransB: t}, c.reshape(a, kernels.Shape{rows, k}), c.reshape(b, matrix))
	} else {
		a, ta := c.untransposed(a)
		b, tb := c.untransposed(b)
		spread := func(x kernels.Value) kernels.Value {
			s := c.Spec(x).Shape
			return c.expand(x, slices.Concat(lead, s[len(s)-2:]))
		}
		y = c.Apply(kernels.MatMul, kernels.MatMulAttrs{TransA: ta, TransB: tb}, spread(a), spread(b))
	}
	return c.reshape(y, slices.Concat(lead, out))
}

// gemm is alpha·a·b + beta·c.
func gemm(c *call) []*value {
	a, b := c.weight(0), c.weight(1)
	at := kernels.MatMulAttrs{TransA: c.attrBool("transA", false), TransB: c.attrBool("transB", false)}
	if len(c.shape(0)) != 2 || len(c.shape(1)) != 2 {
		mismatch("a product of %v and %v", c.shape(0), c.shape(1))
	}
	alpha, beta := c.attrFloat("alpha", 1), c.attrFloat("beta", 1)
	columns := c.shape(1)[1]
	if at.TransB {
		columns = c.shape(1)[0]
	}
	if c.arg(2) == nil || beta == 0 {
		return c.one(c.scaled(c.Apply(kernels.MatMul, at, a, b), alpha))
	}
	bias := c.weight(2)
	if s := c.shape(2); alpha == 1 && beta == 1 && len(s) == 1 && s[0] == columns {
		at.Bias = true
		return c.one(c.Apply(kernels.MatMul, at, a, b, bias))
	}
	y := c.scaled(c.Apply(kernels.MatMul, at, a, b), alpha)
	if s := c.Spec(y).Shape; !broadcast(s, c.shape(2)).Equal(s) {
		mismatch("%v does not broadcast to %v", c.shape(2), s)
	}
	return c.one(c.plus(y, c.scaled(bias, beta)))
}

func (c *call) scaled(x kernels.Value, factor float64) kernels.Value {
	if factor == 1 {
		return x
	}
	return c.affine(x, factor, 0)
}

// cumSum is a running sum. With exclusive it is without the element itself: the sums move by one.
func cumSum(c *call) []*value {
	x, s := c.float(0), c.shape(0)
	k := axis(int(c.number(1, "the axis")), len(s))
	reverse := c.attrBool("reverse", false)
	y := c.Apply(kernels.CumSum, kernels.CumSumAttrs{Axis: k, Reverse: reverse}, x)
	if !c.attrBool("exclusive", false) {
		return c.one(y)
	}
	if s[k] == 1 {
		return []*value{known(c.must(0).typ, s, make([]float64, s.Elems()))}
	}
	lo, hi := make([]int, len(s)), make([]int, len(s))
	if reverse {
		lo[k], hi[k] = -1, 1
	} else {
		lo[k], hi[k] = 1, -1
	}
	return c.one(c.padConstant(y, lo, hi, 0))
}
