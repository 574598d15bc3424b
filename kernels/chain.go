package kernels

import (
	"fmt"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// ChainAttrs are the attributes of Chain: elementwise steps, and a reduction of the last result.
type ChainAttrs struct {
	Steps       []Step
	Reduce      *Op // Sum, Mean or Max of the last step's result. Nil: that is the result
	ReduceAttrs ReduceAttrs
}

// Step is one operation of a chain: an elementwise one, or Fill. In a chain with n inputs, operands
// 0 to n-1 are the inputs and operand n+i is the result of step i. A and B are the step's operands,
// -1 for none: an Op of one operand has no B, Fill has neither.
type Step struct {
	Op    *Op
	Attrs any
	A, B  int
}

// Chain fuses elementwise operations into one pass over memory.
//
//	n tensors of one float type that broadcast → y
//
// Every step, and the reduction at the end, gives the same bits as the operation alone. Values
// between steps are never in memory as a whole. It has no gradient: the compiler makes chains after
// the gradients.
var Chain = Register(&Op{
	Name: "chain", InPlace: []int8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	// A chain with a reduction writes elements of its result while it still reads operands of that
	// shape, which broadcast.
	Overwrites: func(attrs any) bool { return attrs.(*ChainAttrs).Reduce == nil },
	Infer:      inferChain,
	Ref:        refChain,
	Cost: func(attrs any, in, _ []Spec) int64 {
		a := attrs.(*ChainAttrs)
		last, err := a.Last(in)
		if err != nil {
			return 0
		}
		n := int64(len(a.Steps))
		if a.Reduce != nil {
			n++
		}
		return n * int64(last.Shape.Elems())
	},
	Cases: chainCases,
})

func inferChain(attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[*ChainAttrs]("chain", attrs)
	if err != nil {
		return nil, err
	}
	last, err := a.Last(in)
	switch {
	case err != nil:
		return nil, err
	case a.Reduce == nil && a.ReduceAttrs.Axes == nil && !a.ReduceAttrs.Keep:
		return []Spec{last}, nil
	case a.Reduce != Sum && a.Reduce != Mean && a.Reduce != Max:
		return nil, attrError("chain", "ends with sum, mean or max, or with none of them and no attributes of one")
	}
	out, err := a.Reduce.Infer(a.ReduceAttrs, []Spec{last})
	if err != nil {
		return nil, fmt.Errorf("chain: %w", err)
	}
	return out, nil
}

// Last returns the spec of the last step's result, before a reduction, for operands of specs in.
func (a *ChainAttrs) Last(in []Spec) (Spec, error) {
	if len(a.Steps) == 0 {
		return Spec{}, attrError("chain", "has no steps")
	}
	if err := floats("chain", in, len(in)); err != nil {
		return Spec{}, err
	}
	known := append([]Spec(nil), in...)
	for i, s := range a.Steps {
		operands, err := stepOperands(i, s, len(known))
		if err != nil {
			return Spec{}, err
		}
		args := make([]Spec, len(operands))
		for k, o := range operands {
			args[k] = known[o]
		}
		out, err := s.Op.Infer(s.Attrs, args)
		if err != nil {
			return Spec{}, shapeError("chain", "step %d: %v", i, err)
		}
		known = append(known, out[0])
		if out[0].Type != known[0].Type {
			return Spec{}, shapeError("chain", "step %d is %v, not %v", i, out[0].Type, known[0].Type)
		}
	}
	out := known[len(known)-1]
	for _, s := range in {
		if shape, err := broadcastShapes(s.Shape, out.Shape); err != nil || !shape.Equal(out.Shape) {
			return Spec{}, shapeError("chain", "operand %v does not broadcast to the result %v", s, out)
		}
	}
	return out, nil
}

// stepOperands returns the operands of step i, which must be among the known ones before it.
func stepOperands(i int, s Step, known int) ([]int, error) {
	var operands []int
	switch {
	case s.Op == Fill:
	case s.Op == nil || s.Op.Elem == nil:
		return nil, attrError("chain", "step %d is not elementwise", i)
	case s.B < 0:
		operands = []int{s.A}
	default:
		operands = []int{s.A, s.B}
	}
	for _, o := range operands {
		if o < 0 || o >= known {
			return nil, attrError("chain", "step %d (%s) takes operand %d of %d", i, s.Op.Name, o, known)
		}
	}
	return operands, nil
}

func refChain(attrs any, in, out []Tensor) {
	a := attrs.(*ChainAttrs)
	steps, y := a.Steps, out[0]
	if a.Reduce != nil {
		specs := make([]Spec, len(in))
		for k, x := range in {
			specs[k] = x.Spec
		}
		last, _ := a.Last(specs) // as Infer has found it
		y = Tensor{last, make([]float64, last.Shape.Elems())}
		defer func() { a.Reduce.Ref(a.ReduceAttrs, []Tensor{y}, out) }()
	}
	st := make([][]int, len(in))
	for k, x := range in {
		st[k] = broadcastStrides(x.Shape, y.Shape)
	}
	v := make([]float64, len(in)+len(steps))
	forEachIndex(y.Shape, st, func(i int, at []int) {
		for k, x := range in {
			v[k] = x.Data[at[k]]
		}
		for k, s := range steps {
			v[len(in)+k] = Round(y.Type, s.eval(v))
		}
		y.Data[i] = v[len(v)-1]
	})
}

// eval computes the step for one element from the operands before it.
func (s Step) eval(v []float64) float64 {
	switch {
	case s.Op == Fill:
		return s.Attrs.(FillAttrs).Value
	case s.B < 0:
		return s.Op.Elem(s.Attrs, v[s.A], 0)
	}
	return s.Op.Elem(s.Attrs, v[s.A], v[s.B])
}

// chainCases returns random trees of steps that keep values near 1: each result passes a squashing
// op before a product uses it again. There are no comparisons, whose results a rounding may decide;
// tests of devices compare chains of those with the single ops.
func chainCases(r *rand.Rand, float arena.DType) Case {
	shape := randomShape(r, randomRank(r))
	c := Case{In: []Spec{{float, shape}}}
	for range r.IntN(4) {
		c.In = append(c.In, Spec{float, narrow(r, shape)})
	}
	a := &ChainAttrs{}
	add := func(s Step) int {
		a.Steps = append(a.Steps, s)
		return len(c.In) + len(a.Steps) - 1
	}
	last := 0
	for k := 1; k < len(c.In); k++ {
		last = add(Step{Op: []*Op{Add, Sub, Mul}[r.IntN(3)], A: last, B: k})
		last = add(randomStep(r, last))
	}
	for range 1 + r.IntN(4) {
		last = add(randomStep(r, last))
		if r.IntN(3) == 0 {
			one := add(Step{Op: Fill, Attrs: FillAttrs{Type: float, Value: r.NormFloat64()}, A: -1, B: -1})
			last = add(Step{Op: Add, A: one, B: last})
		}
		if r.IntN(3) == 0 {
			last = add(Step{Op: Mul, A: last, B: 0})
		}
	}
	c.Attrs = a
	// A dozen steps, each of slope below about 3 near 1, multiply a rounding error of 6e-8.
	c.Tolerance = 1e-4
	if r.IntN(3) == 0 {
		reducedChain(r, a, shape)
		// Each term may have ten times the error of a term of a plain reduction.
		c.Tolerance = 10 * sumTolerance(reducedCount(shape, a.ReduceAttrs.Axes))
	}
	return c
}

// reducedChain ends a chain with a result of the given shape in a reduction along some axes.
func reducedChain(r *rand.Rand, a *ChainAttrs, shape Shape) {
	a.Reduce = []*Op{Sum, Mean, Max}[r.IntN(3)]
	a.ReduceAttrs.Keep = r.IntN(2) == 0
	for k := range shape {
		if r.IntN(2) == 0 {
			a.ReduceAttrs.Axes = append(a.ReduceAttrs.Axes, k)
		}
	}
}

// randomStep is a step of one operand with moderate results.
func randomStep(r *rand.Rand, operand int) Step {
	s := Step{Op: []*Op{Tanh, Sigmoid, ReLU, LeakyReLU, Affine, Neg, Abs, Sin, Cos, Softplus}[r.IntN(10)], A: operand,
		B: -1}
	switch s.Op {
	case LeakyReLU:
		s.Attrs = LeakyReLUAttrs{0.1}
	case Affine:
		s.Attrs = AffineAttrs{0.5, 0.25}
	}
	return s
}
