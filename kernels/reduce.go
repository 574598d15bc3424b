package kernels

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// ReduceAttrs are the attributes of Sum, Mean and Max.
type ReduceAttrs struct {
	Axes []int // to reduce, sorted and distinct. None: all
	Keep bool  // reduced axes stay, as dimensions of 1
}

// Reductions along axes.
//
//	x [...] → y, x's shape without Axes, of x's float type
//
// Mean divides the sum by the number of elements. Max is NaN where an element is. Devices sum in a
// fixed order. The gradient of Max is divided evenly among equal maxima.
var (
	Sum  = Register(reduction("sum", refSum, reduceCases, "gorgonia.sumOp"))
	Mean = Register(reduction("mean", refMean, reduceCases))
	Max  = Register(reduction("max", refMax, maxCases, "*gorgonia.maxOp"))
)

func init() {
	Sum.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{expand(g, dy[0], n.Attrs.(ReduceAttrs).Axes, g.Spec(n.In[0]).Shape)}
	}
	Mean.Grad = func(g Graph, n Node, dy []Value) []Value {
		x, axes := g.Spec(n.In[0]).Shape, n.Attrs.(ReduceAttrs).Axes
		share := 1 / float64(reducedCount(x, axes))
		return []Value{expand(g, affine(g, dy[0], share, 0), axes, x)}
	}
	Max.Grad = func(g Graph, n Node, dy []Value) []Value {
		x, axes := g.Spec(n.In[0]).Shape, n.Attrs.(ReduceAttrs).Axes
		kept := reducedShape(x, axes, true)
		best := g.Apply(Equal, nil, n.In[0], reshape(g, n.Out[0], kept))
		ties := g.Apply(Sum, ReduceAttrs{Axes: axes, Keep: true}, best)
		return []Value{mul(g, best, div(g, reshape(g, dy[0], kept), ties))}
	}
}

// reduction is an op that reduces axes of one float operand.
func reduction(name string, ref func(attrs any, in, out []Tensor), cases caseFunc, gorgonia ...string) *Op {
	return &Op{
		Name: name, Gorgonia: gorgonia, Ref: ref, Cases: cases,
		Decode: func(f Fields) (any, error) {
			axes, err := f.Ints("along")
			axes = slices.Clone(axes)
			slices.Sort(axes)
			return ReduceAttrs{Axes: slices.Compact(axes)}, err
		},
		Infer: func(attrs any, in []Spec) ([]Spec, error) {
			a, err := attrsOf[ReduceAttrs](name, attrs)
			if err != nil {
				return nil, err
			}
			if err := floats(name, in, 1); err != nil {
				return nil, err
			}
			if err := checkAxes(name, a.Axes, in[0].Shape); err != nil {
				return nil, err
			}
			return []Spec{{in[0].Type, reducedShape(in[0].Shape, a.Axes, a.Keep)}}, nil
		},
		Cost: func(_ any, in, _ []Spec) int64 { return int64(in[0].Shape.Elems()) },
	}
}

// checkAxes returns an error for axes outside s, and for axes that are not increasing.
func checkAxes(name string, axes []int, s Shape) error {
	last := -1
	for _, a := range axes {
		if a <= last || a >= len(s) {
			return attrError(name, "axes %v must be increasing and within 0..%d for %v", axes, len(s)-1, s)
		}
		last = a
	}
	return nil
}

// reducedShape returns s without axes, or with keep with 1 for them. No axes: all of them.
func reducedShape(s Shape, axes []int, keep bool) Shape {
	out := make(Shape, 0, len(s))
	for i, d := range s {
		switch reduced := len(axes) == 0 || slices.Contains(axes, i); {
		case !reduced:
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// reducedCount returns the number of elements that are reduced to one.
func reducedCount(s Shape, axes []int) int {
	n := 1
	for i, d := range s {
		if len(axes) == 0 || slices.Contains(axes, i) {
			n *= d
		}
	}
	return n
}

// reduce folds every element of x into its element of y.
func reduce(attrs any, x, y Tensor, fold func(y *float64, x float64)) {
	st := broadcastStrides(reducedShape(x.Shape, attrs.(ReduceAttrs).Axes, true), x.Shape)
	forEachIndex(x.Shape, [][]int{st}, func(i int, at []int) { fold(&y.Data[at[0]], x.Data[i]) })
}

func refSum(attrs any, in, out []Tensor) {
	clear(out[0].Data)
	reduce(attrs, in[0], out[0], func(y *float64, x float64) { *y += x })
}

func refMean(attrs any, in, out []Tensor) {
	refSum(attrs, in, out)
	n := float64(reducedCount(in[0].Shape, attrs.(ReduceAttrs).Axes))
	each(out[0].Data, func(v float64) float64 { return v / n })
}

func refMax(attrs any, in, out []Tensor) {
	each(out[0].Data, func(float64) float64 { return math.Inf(-1) })
	reduce(attrs, in[0], out[0], func(y *float64, x float64) {
		if x > *y || x != x {
			*y = x
		}
	})
}

func reduceCases(r *rand.Rand, float arena.DType) Case {
	s := randomShape(r, randomRank(r))
	a := ReduceAttrs{Keep: r.IntN(2) == 0}
	for i := range s {
		if r.IntN(2) == 0 {
			a.Axes = append(a.Axes, i)
		}
	}
	return Case{Attrs: a, In: []Spec{{float, s}}, Tolerance: sumTolerance(reducedCount(s, a.Axes))}
}

// maxCases have distinct values, so that a small step changes no maximum.
func maxCases(r *rand.Rand, float arena.DType) Case {
	c := reduceCases(r, float)
	c.Fill = func(r *rand.Rand, _ int, data []float64) { distinct(r, data) }
	return c
}
