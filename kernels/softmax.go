package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// SoftmaxAttrs are the attributes of Softmax, LogSoftmax and their gradients. Along Axis, results
// of Softmax add up to 1.
type SoftmaxAttrs struct{ Axis int }

// Softmax and its logarithm along an axis.
//
//	x [...] → y [...], of one float type
//
//	softmax      y = exp(x - max x) / Σ exp(x - max x)
//	log_softmax  y = x - max x - log Σ exp(x - max x)
var (
	Softmax    = Register(alongAxis("softmax", 1, refSoftmax))
	LogSoftmax = Register(alongAxis("log_softmax", 1, refLogSoftmax))
)

// Gradients of Softmax and LogSoftmax from their results.
//
//	y [...], dy [...] → dx [...], of one spec
//
//	softmax_grad      dx = y·(dy - Σ y·dy)
//	log_softmax_grad  dx = dy - exp(y)·Σ dy
var (
	SoftmaxGrad    = Register(alongAxis("softmax_grad", 2, refSoftmaxGrad))
	LogSoftmaxGrad = Register(alongAxis("log_softmax_grad", 2, refLogSoftmaxGrad))
)

func init() {
	fromResult := func(op *Op) func(Graph, Node, []Value) []Value {
		return func(g Graph, n Node, dy []Value) []Value {
			return []Value{g.Apply(op, n.Attrs, n.Out[0], dy[0])}
		}
	}
	Softmax.Grad, LogSoftmax.Grad = fromResult(SoftmaxGrad), fromResult(LogSoftmaxGrad)
}

// alongAxis is an op on the lines along an axis of n operands of one spec; it may overwrite any of
// them.
func alongAxis(name string, n int, ref func(attrs any, in, out []Tensor)) *Op {
	return &Op{
		Name: name, Ref: ref, InPlace: []int8{0, 1}[:n],
		Infer: func(attrs any, in []Spec) ([]Spec, error) {
			a, err := attrsOf[SoftmaxAttrs](name, attrs)
			if err != nil {
				return nil, err
			}
			out, err := sameSpecs(name, in, n)
			if err != nil {
				return nil, err
			}
			if s := in[0].Shape; a.Axis < 0 || a.Axis >= len(s) {
				return nil, attrError(name, "axis %d is outside %v", a.Axis, s)
			}
			return out, nil
		},
		Cost: func(_ any, _, out []Spec) int64 { return 5 * int64(out[0].Shape.Elems()) },
		Cases: func(r *rand.Rand, float arena.DType) Case {
			s := randomShape(r, 1+r.IntN(3))
			a := SoftmaxAttrs{r.IntN(len(s))}
			c := Case{Attrs: a, In: []Spec{{float, s}}, Tolerance: sumTolerance(s[a.Axis])}
			if n == 1 {
				return c
			}
			c.In = append(c.In, c.In[0])
			c.Fill = func(r *rand.Rand, k int, data []float64) {
				normal(r, data)
				if k == 0 { // a result of the op: lines of positive shares
					x := Tensor{c.In[0], append([]float64(nil), data...)}
					refSoftmax(a, []Tensor{x}, []Tensor{{c.In[0], data}})
					if name == "log_softmax_grad" {
						each(data, math.Log)
					}
				}
			}
			return c
		},
	}
}

// lineMax returns the largest element of a line.
func lineMax(x []float64, start, step, n int) float64 {
	m := math.Inf(-1)
	for i := range n {
		m = max(m, x[start+i*step])
	}
	return m
}

func refSoftmax(attrs any, in, out []Tensor) {
	x, y := in[0].Data, out[0].Data
	lines(in[0].Shape, attrs.(SoftmaxAttrs).Axis, func(start, step, n int) {
		m, sum := lineMax(x, start, step, n), 0.0
		for i := range n {
			e := math.Exp(x[start+i*step] - m)
			y[start+i*step] = e
			sum += e
		}
		for i := range n {
			y[start+i*step] /= sum
		}
	})
}

func refLogSoftmax(attrs any, in, out []Tensor) {
	x, y := in[0].Data, out[0].Data
	lines(in[0].Shape, attrs.(SoftmaxAttrs).Axis, func(start, step, n int) {
		m, sum := lineMax(x, start, step, n), 0.0
		for i := range n {
			sum += math.Exp(x[start+i*step] - m)
		}
		log := math.Log(sum)
		for i := range n {
			y[start+i*step] = x[start+i*step] - m - log
		}
	})
}

func refSoftmaxGrad(attrs any, in, out []Tensor) {
	y, dy, dx := in[0].Data, in[1].Data, out[0].Data
	lines(in[0].Shape, attrs.(SoftmaxAttrs).Axis, func(start, step, n int) {
		dot := 0.0
		for i := range n {
			dot += y[start+i*step] * dy[start+i*step]
		}
		for i := range n {
			dx[start+i*step] = y[start+i*step] * (dy[start+i*step] - dot)
		}
	})
}

func refLogSoftmaxGrad(attrs any, in, out []Tensor) {
	y, dy, dx := in[0].Data, in[1].Data, out[0].Data
	lines(in[0].Shape, attrs.(SoftmaxAttrs).Axis, func(start, step, n int) {
		sum := 0.0
		for i := range n {
			sum += dy[start+i*step]
		}
		for i := range n {
			dx[start+i*step] = dy[start+i*step] - math.Exp(y[start+i*step])*sum
		}
	})
}
