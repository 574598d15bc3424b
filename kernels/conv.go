package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// ConvAttrs are the attributes of Conv. Pairs are height, width.
type ConvAttrs struct {
	Stride, Dilation [2]int      // at least 1
	Pad              [2]int      // zeros on both sides
	Groups           int         // at least 1, divides C and O
	Bias             bool        // operand 2 is a bias [O]
	Norm             bool        // the last operands are mean, scale and shift [O]
	Act              *Op         // nil, ReLU, LeakyReLU, Sigmoid or Tanh
	ActAttrs         any         // attributes of Act
	ComputeType      arena.DType // type that x and w are rounded to, see MatMulAttrs
}

// Conv is a 2-D convolution (a cross-correlation: the kernel is not flipped).
//
//	x [B, C, H, W], w [O, C/Groups, KH, KW] (, bias [O]) (, mean [O], scale [O], shift [O]) → y [B, O, OH, OW]
//	OH = (H + 2·Pad - Dilation·(KH-1) - 1)/Stride + 1
//
// z = Σ x[b, c, oh·Stride - Pad + kh·Dilation, ...]·w[o, c, kh, kw] + bias[o] sums over the C/Groups
// channels of o's group, and y = act((z - mean[o])·scale[o] + shift[o]): shift exactly where z is
// mean. The result has the same bits as Conv, Add, Sub, Mul, Add and the activation one after
// another. Devices may use Winograd's algorithm for 3x3 kernels: its errors are those of a
// few more additions, and an infinity makes its neighbours NaN.
var Conv = Register(&Op{
	Name: "conv",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[ConvAttrs]("conv", attrs)
		if err != nil {
			return nil, err
		}
		operands := a.operands()
		typ, err := productType("conv", in, operands, a.ComputeType)
		if err != nil {
			return nil, err
		}
		w := windowsOf(a)
		out, err := w.output("conv", in[0].Shape, in[1].Shape)
		if err != nil {
			return nil, err
		}
		for k := 2; k < operands; k++ {
			if !in[k].Shape.Equal(Shape{out[1]}) {
				return nil, shapeError("conv", "%s %v must be (%d)", a.name(k), in[k].Shape, out[1])
			}
		}
		y := Spec{typ, out}
		return []Spec{y}, checkAct("conv", a.Act, a.ActAttrs, y)
	},
	Ref: refConv,
	Cost: func(_ any, in, out []Spec) int64 {
		return convCost(in[1].Shape, out[0].Shape)
	},
	Cases: func(r *rand.Rand, float arena.DType) Case {
		w, x, k, _ := convCase(r, float)
		a := ConvAttrs{Stride: w.stride, Pad: w.pad, Dilation: w.dilation, Groups: w.groups, Bias: r.IntN(2) == 0, Norm: r.IntN(3) == 0}
		a.Act = []*Op{nil, nil, ReLU, LeakyReLU, Sigmoid, Tanh}[r.IntN(6)]
		if a.Act == LeakyReLU {
			a.ActAttrs = LeakyReLUAttrs{0.1}
		}
		a.ComputeType = w.operands
		c := Case{Attrs: a, In: w.stored(r, float, x, k), Tolerance: sumTolerance(k[1:].Elems())}
		for range a.operands() - 2 {
			c.In = append(c.In, Spec{float, k[:1]})
		}
		return c
	},
})

// NormAt returns the index of the mean among the operands of a convolution with Norm.
func (a ConvAttrs) NormAt() int {
	if a.Bias {
		return 3
	}
	return 2
}

// name returns the name of operand k, a vector.
func (a ConvAttrs) name(k int) string {
	if k < a.NormAt() {
		return "bias"
	}
	return [...]string{"mean", "scale", "shift"}[k-a.NormAt()]
}

// operands returns the number of operands.
func (a ConvAttrs) operands() int {
	if a.Norm {
		return a.NormAt() + 3
	}
	return a.NormAt()
}

// ConvGradAttrs are the attributes of ConvGradInput and ConvGradWeight: those of the convolution,
// and a size that the operands do not determine.
type ConvGradAttrs struct {
	Stride, Pad, Dilation [2]int
	Groups                int
	Size                  [2]int      // ConvGradInput: H, W of x. ConvGradWeight: KH, KW of w.
	ComputeType           arena.DType // type that both operands are rounded to, see MatMulAttrs
}

// ConvGradInput is the gradient of Conv by its input.
//
//	w [O, C/Groups, KH, KW], dy [B, O, OH, OW] → dx [B, C, H, W]
//
// dx sums w·dy over all products of Conv with that element of x.
var ConvGradInput = Register(&Op{
	Name: "convGradInput",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, typ, dy, err := convGradOperands("convGradInput", attrs, in)
		if err != nil {
			return nil, err
		}
		w := in[0].Shape
		if len(w) != 4 {
			return nil, shapeError("convGradInput", "weights %v must have 4 dimensions", w)
		}
		x := Shape{dy[0], w[1] * a.groups, a.size[0], a.size[1]}
		return []Spec{{typ, x}}, a.makes("convGradInput", x, w, dy)
	},
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(ConvGradAttrs)
		in = roundFactors(a.ComputeType, in)
		w, dy, dx := in[0], in[1], out[0]
		clear(dx.Data)
		gradWindows(a).visit(dx.Shape, w.Shape, dy.Shape, func(x, k, y int) {
			dx.Data[x] += w.Data[k] * dy.Data[y]
		})
		roundAll(dx)
	},
	Cost: func(_ any, in, _ []Spec) int64 { return convCost(in[0].Shape, in[1].Shape) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		w, x, k, y := convCase(r, float)
		return Case{Attrs: w.grad(x[2], x[3]), In: w.stored(r, float, k, y), Tolerance: sumTolerance(k[0] * k[2] * k[3])}
	},
})

// ConvGradWeight is the gradient of Conv by its weights.
//
//	x [B, C, H, W], dy [B, O, OH, OW] → dw [O, C/Groups, KH, KW]
//
// dw sums x·dy over all products of Conv with that element of w. Devices sum in a fixed order.
var ConvGradWeight = Register(&Op{
	Name: "convGradWeight",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, typ, dy, err := convGradOperands("convGradWeight", attrs, in)
		if err != nil {
			return nil, err
		}
		x := in[0].Shape
		if len(x) != 4 {
			return nil, shapeError("convGradWeight", "input %v must have 4 dimensions", x)
		}
		w := Shape{dy[1], x[1] / a.groups, a.size[0], a.size[1]}
		return []Spec{{typ, w}}, a.makes("convGradWeight", x, w, dy)
	},
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(ConvGradAttrs)
		in = roundFactors(a.ComputeType, in)
		x, dy, dw := in[0], in[1], out[0]
		clear(dw.Data)
		gradWindows(a).visit(x.Shape, dw.Shape, dy.Shape, func(at, k, y int) {
			dw.Data[k] += x.Data[at] * dy.Data[y]
		})
		roundAll(dw)
	},
	Cost: func(_ any, in, out []Spec) int64 { return convCost(out[0].Shape, in[1].Shape) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		w, x, k, y := convCase(r, float)
		return Case{Attrs: w.grad(k[2], k[3]), In: w.stored(r, float, x, y), Tolerance: sumTolerance(y[0] * y[2] * y[3])}
	},
})

// Each of the three is linear in both operands, and the other two are its gradients.
func init() {
	Conv.Grad = func(g Graph, n Node, dy []Value) []Value {
		a := n.Attrs.(ConvAttrs)
		x, w, dz := n.In[0], n.In[1], dy[0]
		if a.Act != nil {
			dz = a.Act.Grad(g, Node{Op: a.Act, Attrs: a.ActAttrs, In: []Value{None}, Out: n.Out}, dy)[0]
		}
		var norm []Value
		if a.Norm {
			dz, norm = convNormGrad(g, a, n.In, dz)
		}
		k, xs, ws := windowsOf(a), g.Spec(x).Shape, g.Spec(w).Shape
		d := []Value{
			g.Apply(ConvGradInput, k.grad(xs[2], xs[3]), w, dz),
			g.Apply(ConvGradWeight, k.grad(ws[2], ws[3]), x, dz),
		}
		if a.Bias {
			d = append(d, g.Apply(Sum, ReduceAttrs{Axes: []int{0, 2, 3}}, dz))
		}
		return append(d, norm...)
	}
	ConvGradInput.Grad = func(g Graph, n Node, ddx []Value) []Value {
		k := gradWindows(n.Attrs.(ConvGradAttrs))
		w, dy := n.In[0], n.In[1]
		size := g.Spec(w).Shape
		return []Value{
			g.Apply(ConvGradWeight, k.grad(size[2], size[3]), ddx[0], dy),
			g.Apply(Conv, k.conv(), ddx[0], w),
		}
	}
	ConvGradWeight.Grad = func(g Graph, n Node, ddw []Value) []Value {
		k := gradWindows(n.Attrs.(ConvGradAttrs))
		x, dy := n.In[0], n.In[1]
		size := g.Spec(x).Shape
		return []Value{
			g.Apply(ConvGradInput, k.grad(size[2], size[3]), ddw[0], dy),
			g.Apply(Conv, k.conv(), x, ddw[0]),
		}
	}
}

// convNormGrad returns the gradients by z and by mean, scale and shift of (z - mean)·scale + shift,
// where z is computed again by the convolution without Norm.
func convNormGrad(g Graph, a ConvAttrs, in []Value, dy Value) (dz Value, norm []Value) {
	at := a.NormAt()
	channel := func(v Value) Value { // [O] as [O, 1, 1]
		return g.Apply(Reshape, ReshapeAttrs{Shape: Shape{g.Spec(v).Shape[0], 1, 1}}, v)
	}
	sum := func(v Value) Value { return g.Apply(Sum, ReduceAttrs{Axes: []int{0, 2, 3}}, v) }
	plain := a
	plain.Norm, plain.Act, plain.ActAttrs = false, nil, nil
	centred := g.Apply(Sub, nil, g.Apply(Conv, plain, in[:at]...), channel(in[at]))
	dz = g.Apply(Mul, nil, dy, channel(in[at+1]))
	return dz, []Value{g.Apply(Neg, nil, sum(dz)), sum(g.Apply(Mul, nil, dy, centred)), sum(dy)}
}

func refConv(attrs any, in, out []Tensor) {
	a := attrs.(ConvAttrs)
	in = roundFactors(a.ComputeType, in)
	x, w, y := in[0], in[1], out[0]
	clear(y.Data)
	windowsOf(a).visit(x.Shape, w.Shape, y.Shape, func(at, k, o int) { y.Data[o] += x.Data[at] * w.Data[k] })
	plane := y.Shape[2] * y.Shape[3]
	for i, v := range y.Data {
		v = Round(y.Type, v)
		o := i / plane % y.Shape[1]
		if a.Bias {
			v = Round(y.Type, v+in[2].Data[o])
		}
		if a.Norm {
			n := in[a.NormAt():]
			v = Round(y.Type, v-n[0].Data[o])
			v = Round(y.Type, v*n[1].Data[o])
			v = Round(y.Type, v+n[2].Data[o])
		}
		if a.Act != nil {
			v = a.Act.Elem(a.ActAttrs, v, 0)
		}
		y.Data[i] = v
	}
}

// roundAll rounds float64 sums to the type of t.
func roundAll(t Tensor) { each(t.Data, func(v float64) float64 { return Round(t.Type, v) }) }

// convCost counts a multiplication and an addition for every product.
func convCost(w, y Shape) int64 { return 2 * int64(w[1:].Elems()) * int64(y.Elems()) }
