package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Norms compares normalizations, and their gradients, of random and extreme values with arithmetic
// of 200 bits and unlimited exponents. Equal elements must become beta exactly; a group of one
// element must have a gradient of 0; a variance that is too large for batch normalization must be
// infinite.
func Norms(t *testing.T, open func() (kernels.Device, error)) {
	b := openBench(t, open)
	for _, row := range [][2][]float64{
		{{1, 2, 3, 1e20}, {-0.57735, -0.57735, -0.57735, 1.73205}},
		{{1e30, 2e30, 3e30, 4e30}, {-1.3416, -0.4472, 0.4472, 1.3416}},
		{{100, 100, 100, 100}, {0, 0, 0, 0}},
	} {
		if err := knownNorm(b, row[0], row[1]); err != nil {
			t.Errorf("layer normalization of %v: %v", row[0], err)
		}
	}
	for _, float := range floatTypes {
		t.Run(float.String(), func(t *testing.T) {
			r := random(t)
			for i := range cases() {
				c := randomNorm(r, float)
				if err := c.check(b, r); err != nil {
					t.Fatalf("case %d: %s %+v of %v: %v", i, c.op.Name, c.attrs, c.x.Spec, err)
				}
			}
		})
	}
}

// knownNorm compares the layer normalization of a row in float32 with known values of five digits;
// 0 is exact.
func knownNorm(b *bench, x, want []float64) error {
	tensor := func(data []float64, shape ...int) kernels.Tensor {
		return kernels.Tensor{Spec: kernels.Spec{Type: arena.Float32, Shape: shape}, Data: data}
	}
	n := len(x)
	in := []kernels.Tensor{tensor(x, 1, n), tensor(slices.Repeat([]float64{1}, n), n), tensor(make([]float64, n), n)}
	out, err := b.launch(kernels.LayerNorm, kernels.LayerNormAttrs{Eps: 1e-5}, in, 0, false)
	if err != nil {
		return err
	}
	for i, y := range out[0].Data {
		if !(math.Abs(y-want[i]) <= 5e-5*math.Abs(want[i])) {
			return fmt.Errorf("got %v, want %v", out[0].Data, want)
		}
	}
	return nil
}

// normTest is a normalization of x. Its parts are normalized together: rows, groups, or channels of
// a batch.
type normTest struct {
	op, grad       *kernels.Op
	attrs          any
	eps            float64
	x, gamma, beta kernels.Tensor
	parts          [][]int          // indices of the elements of each part
	param          func(at int) int // index of the gamma and beta of element at
}

// randomNorm returns a random normalization of values of extreme kinds.
func randomNorm(r *rand.Rand, float arena.DType) *normTest {
	shape := kernels.Shape{1 + r.IntN(3), 1 + r.IntN(4), []int{1, 1, 2, 3, 17, 33, 70, 140}[r.IntN(8)]}
	c := &normTest{eps: []float64{1e-5, 1e-3, 1e-20}[r.IntN(3)]}
	least, _ := rangeOf(float)
	switch r.IntN(3) {
	case 0:
		c.op, c.grad, c.attrs = kernels.LayerNorm, kernels.LayerNormGrad, kernels.LayerNormAttrs{Eps: c.eps}
		if r.IntN(4) == 0 {
			c.eps = least
			c.attrs = kernels.LayerNormAttrs{Eps: c.eps}
		}
		c.param = func(at int) int { return at % shape[2] }
	case 1:
		groups := 1 + r.IntN(shape[1])
		for shape[1]%groups != 0 {
			groups--
		}
		c.op, c.grad, c.attrs = kernels.GroupNorm, kernels.GroupNormGrad, kernels.GroupNormAttrs{Groups: groups, Eps: c.eps}
		c.param = func(at int) int { return at / shape[2] % shape[1] }
	default:
		shape[0]++ // two elements a channel
		c.op, c.grad, c.attrs = kernels.BatchNorm, kernels.BatchNormGrad, kernels.BatchNormAttrs{Eps: c.eps, ReLU: r.IntN(2) == 0}
		c.param = func(at int) int { return at / shape[2] % shape[1] }
	}
	part := func(at int) int { return at / shape[2] } // of layer normalization
	switch a := c.attrs.(type) {
	case kernels.GroupNormAttrs:
		part = func(at int) int { return at / (shape[1] / a.Groups * shape[2]) }
	case kernels.BatchNormAttrs:
		part = c.param
	}
	for at := range shape.Elems() {
		if part(at) >= len(c.parts) {
			c.parts = append(c.parts, nil)
		}
		c.parts[part(at)] = append(c.parts[part(at)], at)
	}
	tensor := func(s kernels.Shape) kernels.Tensor {
		return kernels.Tensor{Spec: kernels.Spec{Type: float, Shape: s}, Data: make([]float64, s.Elems())}
	}
	c.x = tensor(shape)
	for _, p := range c.parts {
		for i, v := range extremeValues(r, float, len(p)) {
			c.x.Data[p[i]] = v
		}
	}
	params := kernels.Shape{shape[1]}
	if c.op == kernels.LayerNorm {
		params = shape[2:]
	}
	c.gamma, c.beta = tensor(params), tensor(params)
	for i := range c.gamma.Data {
		c.gamma.Data[i], c.beta.Data[i] = r.NormFloat64(), r.NormFloat64()
	}
	round(c.x)
	round(c.gamma)
	round(c.beta)
	return c
}

// rangeOf returns the smallest normal and the largest number of a type.
func rangeOf(float arena.DType) (least, most float64) {
	if float == arena.Float32 {
		return 0x1p-126, math.MaxFloat32
	}
	return 0x1p-1022, math.MaxFloat64
}

// extremeValues returns n values: equal ones, normal ones of any size, a single large one, the
// largest of both signs, or values around the smallest normal number.
func extremeValues(r *rand.Rand, float arena.DType, n int) []float64 {
	v := make([]float64, n)
	least, most := rangeOf(float)
	size := math.Exp2(math.Log2(least) + r.Float64()*(math.Log2(most)-math.Log2(least)-3)) // most/8 at most: 8 deviations
	kind := r.IntN(8)
	equal := []float64{100, 1e7, -0.1, most, least, size}[r.IntN(6)]
	for i := range v {
		switch kind {
		case 0:
			v[i] = equal
		case 1:
			v[i] = size * max(-8, min(r.NormFloat64(), 8))
		case 2:
			v[i] = float64(1 + i%3)
		case 3:
			v[i] = most * float64(1-i%2*2)
		case 4:
			v[i] = least * 3 * r.NormFloat64()
		case 5:
			v[i] = math.Sqrt(most) * (1 + r.NormFloat64())
		default:
			v[i] = 1 + r.NormFloat64()
		}
	}
	if kind == 2 {
		v[n-1] = size
	}
	return v
}

// check runs the normalization and its gradient, and compares both with the oracle.
func (c *normTest) check(b *bench, r *rand.Rand) error {
	in := []kernels.Tensor{c.x, c.gamma, c.beta}
	out, err := b.launch(c.op, c.attrs, in, r.IntN(2)-1, r.IntN(2) == 0)
	if err != nil {
		return err
	}
	dy := kernels.Tensor{Spec: c.x.Spec, Data: make([]float64, len(c.x.Data))}
	for i := range dy.Data {
		dy.Data[i] = r.NormFloat64()
	}
	round(dy)
	in = []kernels.Tensor{c.x, c.gamma, out[1], out[2], dy}
	if c.op == kernels.BatchNorm {
		in = slices.Insert(in, 2, c.beta)
	}
	grads, err := b.launch(c.grad, c.attrs, in, []int{-1, 0, len(in) - 1}[r.IntN(3)], r.IntN(2) == 0)
	if err != nil {
		return err
	}
	w := newNormWant(c, dy.Data, out)
	for k, p := range c.parts {
		if err := w.checkPart(k, p, out, grads[0].Data); err != nil {
			return fmt.Errorf("part %d: %w", k, err)
		}
	}
	return w.checkParams(grads)
}

// launch runs a call, with its first output in place of input onto, if that is not negative.
func (b *bench) launch(op *kernels.Op, attrs any, in []kernels.Tensor, onto int, odd bool) ([]kernels.Tensor, error) {
	specs := make([]kernels.Spec, len(in))
	for k, x := range in {
		specs[k] = x.Spec
	}
	outs, err := op.Infer(attrs, specs)
	if err != nil {
		return nil, err
	}
	got, err := b.run(b.place(op, attrs, in, outs, []int{onto}, odd), 1)
	if err != nil {
		return nil, err
	}
	out := make([]kernels.Tensor, len(outs))
	for k, s := range outs {
		out[k] = kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
		kernels.Load(out[k].Data, s.Type, got[k])
	}
	return out, nil
}
