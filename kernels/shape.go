package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// ReshapeAttrs are the attributes of Reshape.
type ReshapeAttrs struct {
	Shape  Shape
	Detach bool // no gradient passes, as if x were constant
}

// Reshape gives the same elements another shape.
//
//	x [...] → y [Shape], of x's type
var Reshape = Register(&Op{
	Name: "reshape",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[ReshapeAttrs]("reshape", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("reshape", in, 1); err != nil {
			return nil, err
		}
		if err := checkShape("reshape", a.Shape); err != nil {
			return nil, err
		}
		if a.Shape.Elems() != in[0].Shape.Elems() {
			return nil, shapeError("reshape", "%v has %d elements, %v has %d", in[0].Shape, in[0].Shape.Elems(),
				a.Shape, a.Shape.Elems())
		}
		return []Spec{{in[0].Type, a.Shape}}, nil
	},
	View:  func(any, []Spec) (int64, bool) { return 0, true },
	Moves: everyInput,
	Ref:   func(_ any, in, out []Tensor) { copy(out[0].Data, in[0].Data) },
	Cost:  noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, randomRank(r))
		to := append(Shape{1}, s...)
		if len(s) > 1 && r.IntN(2) == 0 {
			to = append(Shape{s[0] * s[1]}, s[2:]...)
		}
		return Case{Attrs: ReshapeAttrs{Shape: to}, In: []Spec{{randomType(r, float), s}}, Fill: fillAny}
	},
})

// TransposeAttrs are the attributes of Transpose.
type TransposeAttrs struct{ Perm []int }

// Transpose permutes dimensions: dimension i of the result is dimension Perm[i] of x.
//
//	x [...] → y, of x's type
var Transpose = Register(&Op{
	Name: "transpose", Gorgonia: []string{"gorgonia.transposeOp"},
	Decode: func(f Fields) (any, error) {
		perm, err := f.Ints("pattern")
		return TransposeAttrs{slices.Clone(perm)}, err
	},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[TransposeAttrs]("transpose", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("transpose", in, 1); err != nil {
			return nil, err
		}
		s := in[0].Shape
		sorted := slices.Sorted(slices.Values(a.Perm))
		fits := len(sorted) == len(s)
		for i, p := range sorted {
			fits = fits && p == i
		}
		if !fits {
			return nil, attrError("transpose", "%v is not a permutation of the %d dimensions of %v", a.Perm, len(s), s)
		}
		out := make(Shape, len(s))
		for i, p := range a.Perm {
			out[i] = s[p]
		}
		return []Spec{{in[0].Type, out}}, nil
	},
	Moves: everyInput,
	Ref: func(attrs any, in, out []Tensor) {
		own := strides(in[0].Shape)
		st := make([]int, len(own))
		for i, p := range attrs.(TransposeAttrs).Perm {
			st[i] = own[p]
		}
		forEachIndex(out[0].Shape, [][]int{st}, func(i int, at []int) { out[0].Data[i] = in[0].Data[at[0]] })
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, randomRank(r))
		return Case{Attrs: TransposeAttrs{r.Perm(len(s))}, In: []Spec{{randomType(r, float), s}}, Fill: fillAny}
	},
})

// BroadcastAttrs are the attributes of Broadcast.
type BroadcastAttrs struct{ Shape Shape }

// Broadcast repeats x along its dimensions of 1, and along dimensions that it lacks on the left.
//
//	x [...] → y [Shape], of x's type
var Broadcast = Register(&Op{
	Name: "broadcast",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[BroadcastAttrs]("broadcast", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("broadcast", in, 1); err != nil {
			return nil, err
		}
		if err := checkShape("broadcast", a.Shape); err != nil {
			return nil, err
		}
		if s, err := broadcastShapes(in[0].Shape, a.Shape); err != nil || !s.Equal(a.Shape) {
			return nil, shapeError("broadcast", "%v does not broadcast to %v", in[0].Shape, a.Shape)
		}
		return []Spec{{in[0].Type, a.Shape}}, nil
	},
	Moves: everyInput,
	Ref: func(_ any, in, out []Tensor) {
		st := broadcastStrides(in[0].Shape, out[0].Shape)
		forEachIndex(out[0].Shape, [][]int{st}, func(i int, at []int) { out[0].Data[i] = in[0].Data[at[0]] })
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		to := randomShape(r, randomRank(r))
		return Case{Attrs: BroadcastAttrs{to}, In: []Spec{{randomType(r, float), narrow(r, to)}}, Fill: fillAny}
	},
})

// ConcatAttrs are the attributes of Concat.
type ConcatAttrs struct{ Axis int }

// Concat joins tensors along an axis; their other dimensions are equal.
//
//	n tensors → y, of one type
var Concat = Register(&Op{
	Name: "concat", Gorgonia: []string{"gorgonia.concatOp"},
	Decode: func(f Fields) (any, error) {
		axis, err := f.Int("axis")
		return ConcatAttrs{axis}, err
	},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[ConcatAttrs]("concat", attrs)
		if err != nil {
			return nil, err
		}
		if len(in) == 0 {
			return nil, shapeError("concat", "takes at least one operand")
		}
		s := slices.Clone(in[0].Shape)
		if a.Axis < 0 || a.Axis >= len(s) {
			return nil, attrError("concat", "axis %d is outside %v", a.Axis, s)
		}
		for _, x := range in[1:] {
			if x.Type != in[0].Type || len(x.Shape) != len(s) {
				return nil, shapeError("concat", "operands must be of one type and rank, not %v", in)
			}
			for i, d := range x.Shape {
				if i != a.Axis && d != s[i] {
					return nil, shapeError("concat", "operands may differ along axis %d only, not %v", a.Axis, in)
				}
			}
			s[a.Axis] += x.Shape[a.Axis]
		}
		return []Spec{{in[0].Type, s}}, nil
	},
	Moves: everyInput,
	Ref: func(attrs any, in, out []Tensor) {
		axis := attrs.(ConcatAttrs).Axis
		st := strides(out[0].Shape)
		start := 0
		for _, x := range in {
			forEachIndex(x.Shape, [][]int{st}, func(i int, at []int) { out[0].Data[start+at[0]] = x.Data[i] })
			start += x.Shape[axis] * st[axis]
		}
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 1+r.IntN(3))
		axis := r.IntN(len(s))
		c := Case{Attrs: ConcatAttrs{axis}, Fill: fillAny}
		t := randomType(r, float)
		for range 1 + r.IntN(4) {
			x := slices.Clone(s)
			x[axis] = randomDim(r)
			c.In = append(c.In, Spec{t, x})
		}
		return c
	},
})

func init() {
	Reshape.Grad = func(g Graph, n Node, dy []Value) []Value {
		if n.Attrs.(ReshapeAttrs).Detach {
			return []Value{None}
		}
		return []Value{reshape(g, dy[0], g.Spec(n.In[0]).Shape)}
	}
	Transpose.Grad = func(g Graph, n Node, dy []Value) []Value {
		perm := n.Attrs.(TransposeAttrs).Perm
		back := make([]int, len(perm))
		for i, p := range perm {
			back[p] = i
		}
		return []Value{g.Apply(Transpose, TransposeAttrs{back}, dy[0])}
	}
	Broadcast.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{sumTo(g, dy[0], g.Spec(n.In[0]).Shape)}
	}
	Concat.Grad = func(g Graph, n Node, dy []Value) []Value {
		axis := n.Attrs.(ConcatAttrs).Axis
		d := make([]Value, len(n.In))
		start := 0
		for k, x := range n.In {
			a := fullRange(g.Spec(n.Out[0]).Shape)
			a.Start[axis], a.End[axis] = start, start+g.Spec(x).Shape[axis]
			start = a.End[axis]
			d[k] = g.Apply(Slice, a, dy[0])
		}
		return d
	}
}

// everyInput is the Moves of ops that move elements of all inputs.
func everyInput(int) bool { return true }

// noFlops is the Cost of ops that only move data.
func noFlops(any, []Spec, []Spec) int64 { return 0 }
