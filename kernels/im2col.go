package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Im2ColAttrs are the attributes of Im2Col: pairs of height and width, in pixels.
type Im2ColAttrs struct {
	Kernel, Stride, Dilation [2]int // at least 1
	Pad                      [2]int // zeros on both sides
}

// Col2ImAttrs are the attributes of Col2Im. Size is the height and width of the image.
type Col2ImAttrs struct {
	Im2ColAttrs
	Size [2]int
}

// Im2Col copies the pixels of each window to a row, zeros where the window lies outside the image.
//
//	x [B, C, H, W] float → y [B, OH, OW, C·KH·KW]
//	OH = (H + 2·Pad - Dilation·(KH-1) - 1)/Stride + 1
//
// y[b, oh, ow, (c·KH + kh)·KW + kw] = x[b, c, oh·Stride - Pad + kh·Dilation, ...]. The rows times the
// weights of a convolution are its result.
var Im2Col = Register(&Op{
	Name: "im2col",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[Im2ColAttrs]("im2col", attrs)
		if err != nil {
			return nil, err
		}
		if err := floats("im2col", in, 1); err != nil {
			return nil, err
		}
		out, err := a.output("im2col", in[0].Shape)
		return []Spec{{in[0].Type, out}}, err
	},
	Ref: func(attrs any, in, out []Tensor) {
		x, y := in[0], out[0]
		clear(y.Data)
		attrs.(Im2ColAttrs).visit(x.Shape, y.Shape, func(pixel, at int) { y.Data[at] = x.Data[pixel] })
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a, x := im2colCase(r)
		return Case{Attrs: a, In: []Spec{{float, x}}}
	},
})

// Col2Im adds the elements of rows to the pixels that Im2Col copies them from: its gradient.
//
//	dy [B, OH, OW, C·KH·KW] float → dx [B, C, H, W]
var Col2Im = Register(&Op{
	Name: "col2im",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[Col2ImAttrs]("col2im", attrs)
		if err != nil {
			return nil, err
		}
		if err := floats("col2im", in, 1); err != nil {
			return nil, err
		}
		taps := a.Kernel[0] * a.Kernel[1]
		if err := a.check("col2im"); err != nil {
			return nil, err
		}
		dy := in[0].Shape
		if len(dy) != 4 || dy[3]%taps != 0 {
			return nil, shapeError("col2im", "takes rows [B, OH, OW, C·%d], not %v", taps, dy)
		}
		x := Shape{dy[0], dy[3] / taps, a.Size[0], a.Size[1]}
		y, err := a.output("col2im", x)
		if err == nil && !y.Equal(dy) {
			err = shapeError("col2im", "an image %v makes rows %v, not %v", x, y, dy)
		}
		return []Spec{{in[0].Type, x}}, err
	},
	Ref: func(attrs any, in, out []Tensor) {
		dy, dx := in[0], out[0]
		clear(dx.Data)
		attrs.(Col2ImAttrs).visit(dx.Shape, dy.Shape, func(pixel, at int) { dx.Data[pixel] += dy.Data[at] })
	},
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a, x := im2colCase(r)
		y, _ := a.output("im2col", x)
		return Case{Attrs: Col2ImAttrs{a, [2]int{x[2], x[3]}}, In: []Spec{{float, y}}, Tolerance: sumTolerance(a.Kernel[0] * a.Kernel[1])}
	},
})

func init() {
	Im2Col.Grad = func(g Graph, n Node, dy []Value) []Value {
		s := g.Spec(n.In[0]).Shape
		return []Value{g.Apply(Col2Im, Col2ImAttrs{n.Attrs.(Im2ColAttrs), [2]int{s[2], s[3]}}, dy[0])}
	}
	Col2Im.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{g.Apply(Im2Col, n.Attrs.(Col2ImAttrs).Im2ColAttrs, dy[0])}
	}
}

// windows returns the geometry of the convolution that the rows are for.
func (a Im2ColAttrs) windows() windows {
	return windows{stride: a.Stride, pad: a.Pad, dilation: a.Dilation, groups: 1}
}

// check returns an error for attributes that are invalid for all operands.
func (a Im2ColAttrs) check(op string) error {
	for _, k := range a.Kernel {
		if k < 1 || k > convMost {
			return attrError(op, "kernel %v must be 1 to %d in each dimension", a.Kernel, convMost)
		}
	}
	return a.windows().check(op)
}

// output returns the shape of the rows of x.
func (a Im2ColAttrs) output(op string, x Shape) (Shape, error) {
	if err := a.check(op); err != nil {
		return nil, err
	}
	if len(x) != 4 {
		return nil, shapeError(op, "takes images [B, C, H, W], not %v", x)
	}
	y := Shape{x[0], 0, 0, x[1] * a.Kernel[0] * a.Kernel[1]}
	for i, axis := range []string{"high", "wide"} {
		padded, span := x[2+i]+2*a.Pad[i], a.Dilation[i]*(a.Kernel[i]-1)+1
		if span > padded {
			return nil, shapeError(op, "a window %d %s (kernel %v, dilation %v) does not fit into %d with padding (image %v, padding %v)",
				span, axis, a.Kernel, a.Dilation, padded, x, a.Pad)
		}
		y[1+i] = (padded-span)/a.Stride[i] + 1
	}
	return y, nil
}

// visit calls f with each element of the rows y that is a pixel of x, in the order of y.
func (a Im2ColAttrs) visit(x, y Shape, f func(pixel, at int)) {
	taps := a.Kernel[0] * a.Kernel[1]
	for at := range y.Elems() {
		tap, row := at%y[3], at/y[3]
		c, kh, kw := tap/taps, tap%taps/a.Kernel[1], tap%a.Kernel[1]
		h := row/y[2]%y[1]*a.Stride[0] - a.Pad[0] + kh*a.Dilation[0]
		w := row%y[2]*a.Stride[1] - a.Pad[1] + kw*a.Dilation[1]
		if h >= 0 && h < x[2] && w >= 0 && w < x[3] {
			f(((row/(y[1]*y[2])*x[1]+c)*x[2]+h)*x[3]+w, at)
		}
	}
}

// im2colCase returns random windows and the shape of an image.
func im2colCase(r *rand.Rand) (Im2ColAttrs, Shape) {
	w, x, k, _ := convCase(r, arena.Float32)
	return Im2ColAttrs{Kernel: [2]int{k[2], k[3]}, Stride: w.stride, Dilation: w.dilation, Pad: w.pad}, x
}
