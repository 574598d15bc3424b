package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// windows holds the geometry of a convolution, which its three ops share.
type windows struct {
	stride, pad, dilation [2]int // height, width
	groups                int
	size                  [2]int // of gradients: ConvGradAttrs.Size
	operands              arena.DType
}

func windowsOf(a ConvAttrs) windows {
	return windows{stride: a.Stride, pad: a.Pad, dilation: a.Dilation, groups: a.Groups, operands: a.ComputeType}
}

func gradWindows(a ConvGradAttrs) windows {
	return windows{a.Stride, a.Pad, a.Dilation, a.Groups, a.Size, a.ComputeType}
}

// grad returns the attributes of a gradient whose result has the given rows and columns.
func (w windows) grad(rows, cols int) ConvGradAttrs {
	return ConvGradAttrs{w.stride, w.pad, w.dilation, w.groups, [2]int{rows, cols}, w.operands}
}

// conv returns the attributes of the convolution itself.
func (w windows) conv() ConvAttrs {
	return ConvAttrs{Stride: w.stride, Pad: w.pad, Dilation: w.dilation, Groups: w.groups, ComputeType: w.operands}
}

// convMost limits attributes, so that no product of two of them and a dimension overflows.
const convMost = 1 << 20

// check returns an error for attributes that are invalid for all operands.
func (w windows) check(op string) error {
	for i, axis := range []string{"height", "width"} {
		switch {
		case w.stride[i] < 1 || w.stride[i] > convMost:
			return attrError(op, "stride %v: the %s must be 1 to %d", w.stride, axis, convMost)
		case w.dilation[i] < 1 || w.dilation[i] > convMost:
			return attrError(op, "dilation %v: the %s must be 1 to %d", w.dilation, axis, convMost)
		case w.pad[i] < 0 || w.pad[i] > convMost:
			return attrError(op, "padding %v: the %s must be 0 to %d", w.pad, axis, convMost)
		}
	}
	if w.groups < 1 {
		return attrError(op, "groups %d must be at least 1", w.groups)
	}
	return nil
}

// output returns the shape of y for an input [B, C, H, W] and weights [O, C/Groups, KH, KW].
func (w windows) output(op string, x, k Shape) (Shape, error) {
	if err := w.check(op); err != nil {
		return nil, err
	}
	if len(x) != 4 || len(k) != 4 {
		return nil, shapeError(op, "input %v and weights %v must have 4 dimensions each", x, k)
	}
	switch {
	case k[0] < 1 || k[1] < 1 || k[2] < 1 || k[3] < 1:
		return nil, shapeError(op, "weights %v for input %v must not be empty", k, x)
	case k[0]%w.groups != 0:
		return nil, shapeError(op, "%d groups do not divide the %d outputs of weights %v (input %v)", w.groups, k[0], k, x)
	case x[1] != k[1]*w.groups:
		return nil, shapeError(op, "input %v has %d channels, weights %v in %d groups take %d", x, x[1], k, w.groups,
			k[1]*w.groups)
	}
	y := Shape{x[0], k[0], 0, 0}
	for i, axis := range []string{"high", "wide"} {
		padded, span := x[2+i]+2*w.pad[i], w.dilation[i]*(k[2+i]-1)+1
		if span > padded {
			return nil, shapeError(op, "a kernel %d %s (weights %v, dilation %v) does not fit into %d with padding (input %v, padding %v)",
				span, axis, k, w.dilation, padded, x, w.pad)
		}
		y[2+i] = (padded-span)/w.stride[i] + 1
	}
	return y, nil
}

// makes checks that input x and weights k make an output of the shape that dy has.
func (w windows) makes(op string, x, k, dy Shape) error {
	y, err := w.output(op, x, k)
	if err == nil && !y.Equal(dy) {
		return shapeError(op, "input %v and weights %v make %v, not dy's %v", x, k, y, dy)
	}
	return err
}

// convGradOperands checks the operands of both gradients, and returns the type of the result and
// the shape of dy.
func convGradOperands(op string, attrs any, in []Spec) (w windows, typ arena.DType, dy Shape, err error) {
	a, err := attrsOf[ConvGradAttrs](op, attrs)
	if err != nil {
		return w, 0, nil, err
	}
	w = gradWindows(a)
	if err := w.check(op); err != nil {
		return w, 0, nil, err
	}
	if w.size[0] < 0 || w.size[1] < 0 {
		return w, 0, nil, attrError(op, "size %v must not be negative", w.size)
	}
	if typ, err = productType(op, in, 2, w.operands); err != nil {
		return w, 0, nil, err
	}
	if dy = in[1].Shape; len(dy) != 4 {
		return w, 0, nil, shapeError(op, "dy %v must have 4 dimensions", dy)
	}
	return w, typ, dy, nil
}

// stored returns the operands of a random convolution, or of one of its gradients.
func (w windows) stored(r *rand.Rand, float arena.DType, a, b Shape) []Spec {
	return []Spec{{randomStored(r, float, w.operands), a}, {randomStored(r, float, w.operands), b}}
}

// visit calls f with the indices of the elements of x, w and y of every product.
func (w windows) visit(x, k, y Shape, f func(x, k, y int)) {
	outs := k[0] / w.groups // of a group
	for i := range y.Elems() {
		col, row := i%y[3], i/y[3]%y[2]
		o, b := i/(y[3]*y[2])%y[1], i/(y[3]*y[2]*y[1])
		at := o * k[1:].Elems()
		for c := range k[1] {
			plane := (b*x[1] + o/outs*k[1] + c) * x[2]
			for kh := range k[2] {
				h := row*w.stride[0] - w.pad[0] + kh*w.dilation[0]
				for kw := range k[3] {
					v := col*w.stride[1] - w.pad[1] + kw*w.dilation[1]
					if h >= 0 && h < x[2] && v >= 0 && v < x[3] {
						f((plane+h)*x[3]+v, at, i)
					}
					at++
				}
			}
		}
	}
}

// convCase returns a random convolution and the shapes of its input, weights and output: mostly
// tiny, sometimes with enough work for several threads.
func convCase(r *rand.Rand, float arena.DType) (w windows, x, k, y Shape) {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	for {
		w = windows{groups: pick(1, 1, 1, 2, 3)}
		channels, outs := pick(1, 1, 2, 3, 4, 5), pick(1, 2, 3, 4, 7, 9)
		if r.IntN(5) == 0 {
			channels, w.groups = 1, pick(2, 3, 5, 8) // depthwise
			outs = pick(1, 1, 2)
		}
		if r.IntN(8) == 0 {
			channels, outs = 1+r.IntN(40), 1+r.IntN(40)
		}
		x = Shape{pick(1, 1, 2, 3, 5), channels * w.groups, 0, 0}
		k = Shape{outs * w.groups, channels, 0, 0}
		square := r.IntN(2) == 0
		for i := range 2 {
			if i == 1 && square {
				w.stride[1], w.pad[1], w.dilation[1], k[3], x[3] = w.stride[0], w.pad[0], w.dilation[0], k[2], x[2]
				continue
			}
			w.stride[i], w.pad[i] = pick(1, 1, 1, 2, 2, 3, 5), pick(0, 0, 1, 1, 2, 3)
			w.dilation[i], k[2+i] = pick(1, 1, 1, 2, 3), pick(1, 1, 2, 3, 3, 3, 4, 5)
			x[2+i] = 1 + r.IntN(pick(4, 9, 18, 35))
		}
		limit := int64(pick(100_000, 100_000, 100_000, 1_000_000))
		if r.IntN(16) == 0 { // many channels and the most common kernel size, for which devices have special algorithms
			w = windows{stride: [2]int{1, 1}, pad: [2]int{r.IntN(3), r.IntN(3)}, dilation: [2]int{1, 1}, groups: 1}
			x[1], k[0], k[1], k[2], k[3] = 32+r.IntN(3), 32+r.IntN(3), 0, 3, 3
			k[1], x[2], x[3], limit = x[1], 3+r.IntN(5), 3+r.IntN(5), 1_000_000
		}
		var err error
		if y, err = w.output("conv", x, k); err == nil && convCost(k, y) < limit {
			w.operands = randomFactors(r, float)
			return w, x, k, y
		}
	}
}
