package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A convolution is the geometry that the three operations share. Dimensions are those of x [B, C, H, W],
// w [O, C/Groups, KH, KW] and y [B, O, OH, OW].
type convolution struct {
	b, c, h, w            int
	o, kh, kw             int
	oh, ow                int
	stride, pad, dilation [2]int
	groups                int
	cg, og                int // channels and outputs of a group
}

func newConvolution(op *kernels.Op, attrs any, in, out []kernels.Spec) convolution {
	var v convolution
	var x, w, y kernels.Shape
	switch op {
	case kernels.Conv:
		a := attrs.(kernels.ConvAttrs)
		v = convolution{stride: a.Stride, pad: a.Pad, dilation: a.Dilation, groups: a.Groups}
		x, w, y = in[0].Shape, in[1].Shape, out[0].Shape
	default:
		a := attrs.(kernels.ConvGradAttrs)
		v = convolution{stride: a.Stride, pad: a.Pad, dilation: a.Dilation, groups: a.Groups}
		x, w, y = out[0].Shape, in[0].Shape, in[1].Shape
		if op == kernels.ConvGradWeight {
			x, w = w, x
		}
	}
	v.b, v.c, v.h, v.w = x[0], x[1], x[2], x[3]
	v.o, v.kh, v.kw = w[0], w[2], w[3]
	v.oh, v.ow = y[2], y[3]
	v.cg, v.og = v.c/v.groups, v.o/v.groups
	return v
}

func bindConv(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindConvOf[float32](b), nil
	case arena.Float64:
		return bindConvOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

func bindConvOf[T float](b *binding) func() {
	v := newConvolution(b.Op, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	switch b.Op {
	case kernels.ConvGradInput:
		w, dy, dx := in[T](b, 0), in[T](b, 1), out[T](b, 0)
		return b.over(v.b*v.groups, 1, func(lo, hi, _ int) {
			for i := lo; i < hi; i++ {
				clear(dx[i*v.cg*v.h*v.w : (i+1)*v.cg*v.h*v.w])
				v.visit(i/v.groups, i%v.groups, func(x, k, y int) { dx[x] += w[k] * dy[y] })
			}
		})
	case kernels.ConvGradWeight:
		x, dy, dw := in[T](b, 0), in[T](b, 1), out[T](b, 0)
		return b.over(v.groups, 1, func(lo, hi, _ int) {
			for g := lo; g < hi; g++ {
				n := v.og * v.cg * v.kh * v.kw
				clear(dw[g*n : (g+1)*n])
				for i := range v.b {
					v.visit(i, g, func(at, k, y int) { dw[k] += x[at] * dy[y] })
				}
			}
		})
	}
	a := b.Attrs.(kernels.ConvAttrs)
	x, w, y := in[T](b, 0), in[T](b, 1), out[T](b, 0)
	var bias []T
	if a.Bias {
		bias = in[T](b, 2)
	}
	var act unaryFunc[T]
	if a.Act != nil {
		act = unaryTile[T](b.dev.level, a.Act, a.ActAttrs)
	}
	plane := v.oh * v.ow
	return b.over(v.b*v.groups, 1, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			part := y[i*v.og*plane : (i+1)*v.og*plane]
			clear(part)
			v.visit(i/v.groups, i%v.groups, func(at, k, o int) { y[o] += x[at] * w[k] })
			for j := range part {
				if bias != nil {
					part[j] += bias[i%v.groups*v.og+j/plane]
				}
			}
			if act != nil {
				act(part, part)
			}
		}
	})
}

// visit calls f with the indices into x, w and y of every product of one group of one image.
func (v *convolution) visit(b, g int, f func(x, w, y int)) {
	for o := range v.og {
		for i := range v.oh * v.ow {
			y := (b*v.o+g*v.og+o)*v.oh*v.ow + i
			k := (g*v.og + o) * v.cg * v.kh * v.kw
			for c := range v.cg {
				plane := (b*v.c + g*v.cg + c) * v.h
				for kh := range v.kh {
					h := i/v.ow*v.stride[0] - v.pad[0] + kh*v.dilation[0]
					for kw := range v.kw {
						w := i%v.ow*v.stride[1] - v.pad[1] + kw*v.dilation[1]
						if h >= 0 && h < v.h && w >= 0 && w < v.w {
							f((plane+h)*v.w+w, k, y)
						}
						k++
					}
				}
			}
		}
	}
}
