package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// PoolAttrs are the attributes of MaxPool and AvgPool: pairs of height and width, in pixels.
type PoolAttrs struct {
	Kernel, Stride [2]int // at least 1
	Pad            [2]int // top, left: less than Kernel
	PadEnd         [2]int // bottom, right: less than Kernel
	CountPad       bool   // AvgPool: padding counts in the mean, as zeros
}

// PoolGradAttrs are the attributes of the gradients of pooling. Size is the height and width of the
// image.
type PoolGradAttrs struct {
	PoolAttrs
	Size [2]int
}

// MaxPool returns the largest pixel of each window.
//
//	x [B, C, H, W] → y [B, C, OH, OW], index, of the same shape
//
// OH = (H + Pad + PadEnd - Kernel)/Stride + 1. index is the position of the maximum in its window,
// row·KW + column: the first of equal ones, or the first NaN. It is uint8 where KH·KW ≤ 256, else
// int32. Padding never wins.
var MaxPool = Register(&Op{Name: "maxPool", Infer: inferMaxPool, Ref: refMaxPool, Cost: costPool, Cases: maxPoolCases})

// MaxPoolGrad adds each gradient to the pixel that was the maximum.
//
//	index [B, C, OH, OW], dy [B, C, OH, OW] → dx [B, C, H, W]
//
// An index outside the image adds nothing.
var MaxPoolGrad = Register(&Op{
	Name: "maxPoolGrad", Infer: inferMaxPoolGrad, Ref: refMaxPoolGrad, Cases: maxPoolGradCases,
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[1].Shape.Elems()) },
})

// AvgPool returns the mean of each window.
//
//	x [B, C, H, W] → y [B, C, OH, OW]
//
// The mean is over the pixels of the image that the window covers, or over KH·KW with CountPad.
var AvgPool = Register(&Op{Name: "avgPool", Infer: inferAvgPool, Ref: refAvgPool, Cost: costPool, Cases: avgPoolCases})

// AvgPoolGrad distributes each gradient evenly to the pixels of its window.
//
//	dy [B, C, OH, OW] → dx [B, C, H, W]
var AvgPoolGrad = Register(&Op{
	Name: "avgPoolGrad", Infer: inferAvgPoolGrad, Ref: refAvgPoolGrad, Cases: avgPoolGradCases,
	Cost: func(attrs any, in, _ []Spec) int64 {
		k := attrs.(PoolGradAttrs).Kernel
		return int64(k[0]*k[1]) * int64(in[0].Shape.Elems())
	},
})

func init() {
	gradAttrs := func(g Graph, n Node) PoolGradAttrs {
		s := g.Spec(n.In[0]).Shape
		return PoolGradAttrs{n.Attrs.(PoolAttrs), [2]int{s[2], s[3]}}
	}
	MaxPool.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{g.Apply(MaxPoolGrad, gradAttrs(g, n), n.Out[1], dy[0])}
	}
	AvgPool.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{g.Apply(AvgPoolGrad, gradAttrs(g, n), dy[0])}
	}
}

// IndexType returns the type of MaxPool's index.
func (a PoolAttrs) IndexType() arena.DType {
	if a.Kernel[0]*a.Kernel[1] <= 256 {
		return arena.Uint8
	}
	return arena.Int32
}

// Window returns the pixels from first to end-1, along axis (0: height) of an image of size pixels,
// that window k covers, and the start of the window itself, which may be in the padding.
func (a PoolAttrs) Window(axis, k, size int) (start, first, end int) {
	start = k*a.Stride[axis] - a.Pad[axis]
	return start, max(start, 0), min(start+a.Kernel[axis], size)
}

// check returns an error that wraps ErrAttrs for attributes that no image fits.
func (a PoolAttrs) check(name string) error {
	for i := range 2 {
		switch {
		case a.Kernel[i] < 1 || a.Stride[i] < 1:
			return attrError(name, "kernel %v and stride %v must be at least 1", a.Kernel, a.Stride)
		case a.Pad[i] < 0 || a.PadEnd[i] < 0 || a.Pad[i] >= a.Kernel[i] || a.PadEnd[i] >= a.Kernel[i]:
			return attrError(name, "padding %v and %v must be at least 0 and less than the kernel %v", a.Pad,
				a.PadEnd, a.Kernel)
		}
	}
	if a.Kernel[0] > math.MaxInt32/a.Kernel[1] {
		return attrError(name, "kernel %v is too large", a.Kernel)
	}
	return nil
}

// pooled returns the shape of the result for x.
func (a PoolAttrs) pooled(name string, x Shape) (Shape, error) {
	if len(x) != 4 {
		return nil, shapeError(name, "takes images [B, C, H, W], not %v", x)
	}
	y := Shape{x[0], x[1], 0, 0}
	for i := range 2 {
		size := x[2+i]
		if size < 1 {
			return nil, shapeError(name, "images of %v have no pixels", x)
		}
		room := size + a.Pad[i] + a.PadEnd[i] - a.Kernel[i]
		if room < 0 {
			return nil, shapeError(name, "kernel %v is larger than the padded image %v of %v",
				a.Kernel, [2]int{x[2] + a.Pad[0] + a.PadEnd[0], x[3] + a.Pad[1] + a.PadEnd[1]}, x)
		}
		y[2+i] = room/a.Stride[i] + 1
	}
	return y, nil
}

func inferAvgPool(attrs any, in []Spec) ([]Spec, error) { return inferPool("avgPool", attrs, in) }

func inferPool(name string, attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[PoolAttrs](name, attrs)
	if err != nil {
		return nil, err
	}
	if err := a.check(name); err != nil {
		return nil, err
	}
	if err := floats(name, in, 1); err != nil {
		return nil, err
	}
	y, err := a.pooled(name, in[0].Shape)
	if err != nil {
		return nil, err
	}
	return []Spec{{in[0].Type, y}}, nil
}

func inferMaxPool(attrs any, in []Spec) ([]Spec, error) {
	out, err := inferPool("maxPool", attrs, in)
	if err != nil {
		return nil, err
	}
	return append(out, Spec{attrs.(PoolAttrs).IndexType(), out[0].Shape}), nil
}

// inferPoolGrad returns the spec of dx, from dy.
func inferPoolGrad(name string, a PoolGradAttrs, dy Spec) ([]Spec, error) {
	if err := a.check(name); err != nil {
		return nil, err
	}
	if err := floats(name, []Spec{dy}, 1); err != nil {
		return nil, err
	}
	if len(dy.Shape) != 4 {
		return nil, shapeError(name, "takes gradients [B, C, OH, OW], not %v", dy)
	}
	x := Shape{dy.Shape[0], dy.Shape[1], a.Size[0], a.Size[1]}
	y, err := a.pooled(name, x)
	if err != nil {
		return nil, err
	}
	if !y.Equal(dy.Shape) {
		return nil, shapeError(name, "the gradient for images %v must be %v, not %v", x, y, dy.Shape)
	}
	return []Spec{{dy.Type, x}}, nil
}

func inferMaxPoolGrad(attrs any, in []Spec) ([]Spec, error) {
	const name = "maxPoolGrad"
	a, err := attrsOf[PoolGradAttrs](name, attrs)
	if err != nil {
		return nil, err
	}
	if err := count(name, in, 2); err != nil {
		return nil, err
	}
	out, err := inferPoolGrad(name, a, in[1])
	if err != nil {
		return nil, err
	}
	if index := (Spec{a.IndexType(), in[1].Shape}); !in[0].Equal(index) {
		return nil, shapeError(name, "the index must be %v, not %v", index, in[0])
	}
	return out, nil
}

func inferAvgPoolGrad(attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[PoolGradAttrs]("avgPoolGrad", attrs)
	if err != nil {
		return nil, err
	}
	if err := count("avgPoolGrad", in, 1); err != nil {
		return nil, err
	}
	return inferPoolGrad("avgPoolGrad", a, in[0])
}

func costPool(attrs any, _, out []Spec) int64 {
	k := attrs.(PoolAttrs).Kernel
	return int64(k[0]*k[1]) * int64(out[0].Shape.Elems())
}

// windows visits the windows of all planes in row-major order. Window i belongs to the plane that
// starts at element plane; its top left corner is at row, col, which may be in the padding.
func (a PoolAttrs) windows(x, y Shape, visit func(i, plane, row, col int)) {
	i := 0
	for p := range y[0] * y[1] {
		for oh := range y[2] {
			for ow := range y[3] {
				visit(i, p*x[2]*x[3], oh*a.Stride[0]-a.Pad[0], ow*a.Stride[1]-a.Pad[1])
				i++
			}
		}
	}
}

// pixels visits the pixels of a window inside an image of shape x, with their positions at in the
// plane and k in the window.
func (a PoolAttrs) pixels(x Shape, row, col int, visit func(at, k int)) {
	for r := max(row, 0); r < min(row+a.Kernel[0], x[2]); r++ {
		for c := max(col, 0); c < min(col+a.Kernel[1], x[3]); c++ {
			visit(r*x[3]+c, (r-row)*a.Kernel[1]+c-col)
		}
	}
}

// share returns the divisor of the mean over the window at row, col.
func (a PoolAttrs) share(x Shape, row, col int) float64 {
	n := 0
	if a.pixels(x, row, col, func(int, int) { n++ }); a.CountPad {
		n = a.Kernel[0] * a.Kernel[1]
	}
	return float64(n)
}

func refMaxPool(attrs any, in, out []Tensor) {
	a, x := attrs.(PoolAttrs), in[0]
	a.windows(x.Shape, out[0].Shape, func(i, plane, row, col int) {
		best, index := 0.0, -1
		a.pixels(x.Shape, row, col, func(at, k int) {
			if v := x.Data[plane+at]; index < 0 || v > best || v != v && best == best {
				best, index = v, k
			}
		})
		out[0].Data[i], out[1].Data[i] = best, float64(index)
	})
}

func refMaxPoolGrad(attrs any, in, out []Tensor) {
	a, dx := attrs.(PoolGradAttrs), out[0]
	clear(dx.Data)
	a.windows(dx.Shape, in[1].Shape, func(i, plane, row, col int) {
		a.pixels(dx.Shape, row, col, func(at, k int) {
			if float64(k) == in[0].Data[i] {
				dx.Data[plane+at] += in[1].Data[i]
			}
		})
	})
}

func refAvgPool(attrs any, in, out []Tensor) {
	a, x := attrs.(PoolAttrs), in[0]
	a.windows(x.Shape, out[0].Shape, func(i, plane, row, col int) {
		sum := 0.0
		a.pixels(x.Shape, row, col, func(at, _ int) { sum += x.Data[plane+at] })
		out[0].Data[i] = sum / a.share(x.Shape, row, col)
	})
}

func refAvgPoolGrad(attrs any, in, out []Tensor) {
	a, dx := attrs.(PoolGradAttrs), out[0]
	clear(dx.Data)
	a.windows(dx.Shape, in[0].Shape, func(i, plane, row, col int) {
		v := in[0].Data[i] / a.share(dx.Shape, row, col)
		a.pixels(dx.Shape, row, col, func(at, _ int) { dx.Data[plane+at] += v })
	})
}

// randomPool returns attributes and images that fit them; one in three has the usual windows of 2x2.
func randomPool(r *rand.Rand) (PoolAttrs, Shape) {
	x := randomShape(r, 4)
	a := PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, CountPad: r.IntN(2) == 0}
	if r.IntN(3) > 0 {
		for i := range 2 {
			a.Kernel[i], a.Stride[i] = 1+r.IntN(5), 1+r.IntN(4)
			a.Pad[i], a.PadEnd[i] = r.IntN(a.Kernel[i]), r.IntN(a.Kernel[i])
		}
		if r.IntN(16) == 0 { // an index that does not fit a byte
			a.Kernel, a.Pad, a.PadEnd = [2]int{13, 21}, [2]int{6, 10}, [2]int{6, 10}
		}
	}
	for i := range 2 {
		x[2+i] = max(x[2+i], a.Kernel[i]-a.Pad[i]-a.PadEnd[i], 1)
	}
	return a, x
}

// maxPoolCases have distinct values, so that a small step changes no maximum; one in eight has a NaN.
func maxPoolCases(r *rand.Rand, float arena.DType) Case {
	a, x := randomPool(r)
	bad := r.IntN(8) == 0
	return Case{Attrs: a, In: []Spec{{float, x}}, Fill: func(r *rand.Rand, _ int, data []float64) {
		for i, p := range r.Perm(len(data)) {
			data[i] = float64(p-len(data)/2) / 64
		}
		if bad {
			data[r.IntN(len(data))] = math.NaN()
		}
	}}
}

// pooledCase returns attributes, and the shape of the gradients that fit them.
func pooledCase(r *rand.Rand) (PoolGradAttrs, Shape) {
	a, x := randomPool(r)
	y, err := a.pooled("pool", x)
	if err != nil {
		panic(err)
	}
	return PoolGradAttrs{a, [2]int{x[2], x[3]}}, y
}

// maxPoolGradCases have any index of a window and now and then one outside.
func maxPoolGradCases(r *rand.Rand, float arena.DType) Case {
	a, y := pooledCase(r)
	return Case{Attrs: a, In: []Spec{{a.IndexType(), y}, {float, y}}, Fill: func(r *rand.Rand, k int, data []float64) {
		if k == 0 {
			labels(r, data, a.Kernel[0]*a.Kernel[1]+r.IntN(8)/7)
			return
		}
		normal(r, data)
	}}
}

func avgPoolCases(r *rand.Rand, float arena.DType) Case {
	a, x := randomPool(r)
	return Case{Attrs: a, In: []Spec{{float, x}}}
}

func avgPoolGradCases(r *rand.Rand, float arena.DType) Case {
	a, y := pooledCase(r)
	return Case{Attrs: a, In: []Spec{{float, y}}}
}
