package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// SliceAttrs are the attributes of Slice: for each dimension the first index, the end, exclusive,
// and the step, at least 1.
type SliceAttrs struct{ Start, End, Step []int }

// Slice selects a range of every dimension; the rank stays.
//
//	x [...] → y, of x's type
//
// It is a view if the range is contiguous: full in all dimensions after the first one with a range
// longer than 1.
var Slice = Register(&Op{
	Name: "slice",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[SliceAttrs]("slice", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("slice", in, 1); err != nil {
			return nil, err
		}
		s := in[0].Shape
		if len(a.Start) != len(s) || len(a.End) != len(s) || len(a.Step) != len(s) {
			return nil, attrError("slice", "needs a range for each dimension of %v, has %v", s, a)
		}
		out := make(Shape, len(s))
		for i, d := range s {
			if a.Start[i] < 0 || a.Start[i] > a.End[i] || a.End[i] > d || a.Step[i] < 1 {
				return nil, attrError("slice", "range %d:%d:%d is outside dimension %d of %v", a.Start[i], a.End[i],
					a.Step[i], i, s)
			}
			out[i] = (a.End[i] - a.Start[i] + a.Step[i] - 1) / a.Step[i]
		}
		return []Spec{{in[0].Type, out}}, nil
	},
	View:  viewSlice,
	Moves: everyInput,
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(SliceAttrs)
		start, st := sliceStrides(in[0].Shape, a.Start, a.Step)
		forEachIndex(out[0].Shape, [][]int{st}, func(i int, at []int) { out[0].Data[i] = in[0].Data[start+at[0]] })
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, randomRank(r))
		return Case{Attrs: randomRange(r, s), In: []Spec{{randomType(r, float), s}}, Fill: fillAny}
	},
})

// UnsliceAttrs are the attributes of Unslice: the shape of the result, the first indices and the
// steps.
type UnsliceAttrs struct {
	Shape       Shape
	Start, Step []int
}

// Unslice writes x to a range of a tensor of zeros: the gradient of Slice.
//
//	x [...] → y [Shape], of x's type
var Unslice = Register(&Op{
	Name: "unslice",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[UnsliceAttrs]("unslice", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("unslice", in, 1); err != nil {
			return nil, err
		}
		s := in[0].Shape
		if len(a.Shape) != len(s) || len(a.Start) != len(s) || len(a.Step) != len(s) {
			return nil, attrError("unslice", "needs a start and step for each dimension of %v, has %v", s, a)
		}
		for i, d := range s {
			if last := a.Start[i] + (d-1)*a.Step[i]; a.Start[i] < 0 || a.Step[i] < 1 || last >= a.Shape[i] {
				return nil, shapeError("unslice", "dimension %d of %v does not fit %v from %d by steps of %d", i, s,
					a.Shape, a.Start[i], a.Step[i])
			}
		}
		return []Spec{{in[0].Type, a.Shape}}, nil
	},
	Moves: everyInput,
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(UnsliceAttrs)
		start, st := sliceStrides(a.Shape, a.Start, a.Step)
		clear(out[0].Data)
		forEachIndex(in[0].Shape, [][]int{st}, func(i int, at []int) { out[0].Data[start+at[0]] = in[0].Data[i] })
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, randomRank(r))
		a := randomRange(r, s)
		out, _ := Slice.Infer(a, []Spec{{float, s}})
		return Case{Attrs: UnsliceAttrs{s, a.Start, a.Step}, In: []Spec{{randomType(r, float), out[0].Shape}},
			Fill: fillAny}
	},
})

func init() {
	Slice.Grad = func(g Graph, n Node, dy []Value) []Value {
		a := n.Attrs.(SliceAttrs)
		return []Value{g.Apply(Unslice, UnsliceAttrs{g.Spec(n.In[0]).Shape, a.Start, a.Step}, dy[0])}
	}
	Unslice.Grad = func(g Graph, n Node, dy []Value) []Value {
		a, s := n.Attrs.(UnsliceAttrs), g.Spec(n.In[0]).Shape
		end := make([]int, len(s))
		for i, d := range s {
			end[i] = a.Start[i] + (d-1)*a.Step[i] + 1
		}
		return []Value{g.Apply(Slice, SliceAttrs{a.Start, end, a.Step}, dy[0])}
	}
}

// viewSlice returns the offset of a contiguous range in bytes.
func viewSlice(attrs any, in []Spec) (offset int64, ok bool) {
	a := attrs.(SliceAttrs)
	st := strides(in[0].Shape)
	cut := false // a dimension longer than 1 has been seen
	for i, d := range in[0].Shape {
		n := (a.End[i] - a.Start[i] + a.Step[i] - 1) / a.Step[i]
		if n == 0 || cut && n != d || n > 1 && a.Step[i] > 1 {
			return 0, false
		}
		cut = cut || n > 1
		offset += int64(a.Start[i]) * int64(st[i])
	}
	return offset * in[0].Type.Size(), true
}

// sliceStrides returns the first element of a slice and its strides, in elements of shape s.
func sliceStrides(s Shape, start, step []int) (first int, st []int) {
	st = strides(s)
	for i := range st {
		first += start[i] * st[i]
		st[i] *= step[i]
	}
	return first, st
}

// fullRange selects all of s.
func fullRange(s Shape) SliceAttrs {
	a := SliceAttrs{Start: make([]int, len(s)), End: slices.Clone(s), Step: make([]int, len(s))}
	for i := range a.Step {
		a.Step[i] = 1
	}
	return a
}

// randomRange selects a part of s that is not empty, in half of the cases a contiguous one.
func randomRange(r *rand.Rand, s Shape) SliceAttrs {
	a := fullRange(s)
	contiguous := r.IntN(2) == 0
	for i, d := range s {
		a.Start[i] = r.IntN(d)
		a.End[i] = a.Start[i] + 1 + r.IntN(d-a.Start[i])
		if contiguous {
			break
		}
		a.Step[i] = 1 + r.IntN(3)
	}
	return a
}
