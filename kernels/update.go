package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// UpdateAttrs are the attributes that all optimizer rules share. The gradient is first scaled, then
// clipped, then decayed. All rules have the operands
//
//	param [...], grad [...], guard int32 [4], controls float64 [10] (, scale float64 ()), states → param, states
//
// scale exists if Scaled. The outputs are the inputs of the same name, changed in place. If
// guard[0] is not 0, nothing changes. In the formulas of the rules, g is the gradient and rate is
// controls[0].
type UpdateAttrs struct {
	ClipValue float64 // each element of the gradient is clipped to ±ClipValue; 0: not clipped
	Scaled    bool    // operand 4 is a scale, float64 (), that the gradient is multiplied by
	Decay     float64 // weight decay: Decay·param is added to the gradient; AdamW, Lion and Adafactor add it to the step
}

// Common returns the attributes that all rules share.
func (u UpdateAttrs) Common() UpdateAttrs { return u }

// Updater is implemented by the attributes of every optimizer rule.
type Updater interface{ Common() UpdateAttrs }

// State is a tensor that a rule keeps for a parameter, all zero bytes before the first update.
type State struct {
	Name string
	Spec
}

// Indices in the controls vector.
const (
	ControlUnscale = 5 // 1 / the loss scale
	// ControlShare is the number that the backward pass starts with, as the gradient of the loss:
	// the loss scale times the step's share of the samples of an update. The share is 1, or less if
	// several steps accumulate gradients.
	ControlShare = 6
	// ControlRank is this rank's share of the samples of a step of all ranks of a group; not set
	// without a group.
	ControlRank = 9
	// ControlAverage is the weight of the parameters in their averages at this update: see [Mix].
	ControlAverage = 8
)

// Controls is the length of the controls vector, which every rule reads: the learning rate, the
// number of the update (from 1), up to three numbers of the rule, and at [ControlUnscale],
// [ControlShare], [ControlStep], [ControlAverage] and [ControlRank] the trainer's numbers.
const Controls = 10

// ControlsSpec is the spec of the controls vector.
var ControlsSpec = Spec{arena.Float64, Shape{Controls}}

// rule computes the update of one element of type t. s are its states, changed in place; it returns
// the parameter.
type rule func(attrs any, t arena.DType, controls []float64, param, grad float64, s []float64) float64

// update is an optimizer rule with a number of states:
//
//	param [...], grad [...], guard int32 [4], controls float64 [10] (, scale float64 ()), states [...] → param, states
//
// Outputs are the inputs of the same name, changed in place. If guard[0] is not 0 nothing changes.
// decoupled: f itself applies Decay.
func update[A Updater](name string, states int, decoupled bool, attrs func(r *rand.Rand, u UpdateAttrs) A, f rule) *Op {
	op := &Op{
		Name: name, Updates: []int8{0, 4, 5}[:1+states], Block: 1,
		Infer: func(attrs any, in []Spec) ([]Spec, error) { return inferUpdate[A](name, states, attrs, in) },
		Ref: func(attrs any, in, out []Tensor) {
			refUpdate(attrs, attrs.(A).Common(), decoupled, in, out, f)
		},
		Cost: func(_ any, in, _ []Spec) int64 { return int64(4+6*states) * int64(in[0].Shape.Elems()) },
	}
	op.Cases = func(r *rand.Rand, float arena.DType) Case { return updateCase(r, float, states, attrs) }
	return op
}

func inferUpdate[A Updater](name string, states int, attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[A](name, attrs)
	if err != nil {
		return nil, err
	}
	first, err := checkUpdate(name, a.Common(), in, states)
	if err != nil {
		return nil, err
	}
	param := in[0]
	out := []Spec{param}
	for _, s := range in[first:] {
		if !s.Equal(param) {
			return nil, shapeError(name, "state must be %v, not %v", param, s)
		}
		out = append(out, s)
	}
	return out, nil
}

// inferStates returns the outputs of a rule whose states differ from the parameter in type or
// shape.
func inferStates(name string, u UpdateAttrs, in []Spec, states func(param Spec) []State) ([]Spec, error) {
	first, err := checkUpdate(name, u, in, len(states(Spec{})))
	if err != nil {
		return nil, err
	}
	out := []Spec{in[0]}
	for k, s := range states(in[0]) {
		if !in[first+k].Equal(s.Spec) {
			return nil, shapeError(name, "state %s of %v must be %v, not %v", s.Name, in[0], s.Spec, in[first+k])
		}
		out = append(out, s.Spec)
	}
	return out, nil
}

// checkUpdate checks the operands that all rules share, and returns the index of the first state.
func checkUpdate(name string, u UpdateAttrs, in []Spec, states int) (first int, err error) {
	if !(u.ClipValue >= 0) {
		return 0, attrError(name, "clip value %v must not be negative", u.ClipValue)
	}
	first = 4
	if u.Scaled {
		first = 5
	}
	if err := count(name, in, first+states); err != nil {
		return 0, err
	}
	param := in[0]
	if !param.Type.Float() || !in[1].Equal(param) {
		return 0, shapeError(name, "parameter and gradient must be floats of one shape, not %v", in[:2])
	}
	if !in[2].Equal(GuardSpec) || !in[3].Equal(ControlsSpec) {
		return 0, shapeError(name, "guard and controls must be int32 (4) and float64 (10), not %v", in[2:4])
	}
	if u.Scaled && !in[4].Equal(Spec{arena.Float64, nil}) {
		return 0, shapeError(name, "scale must be float64 (), not %v", in[4])
	}
	return first, nil
}

// copyUpdate copies parameter and states to the outputs, and returns the scale of the gradient.
func copyUpdate(u UpdateAttrs, in, out []Tensor) (scale float64) {
	first, scale := 4, 1.0
	if u.Scaled {
		first, scale = 5, in[4].Data[0]
	}
	copy(out[0].Data, in[0].Data)
	for k, s := range in[first:] {
		copy(out[1+k].Data, s.Data)
	}
	return scale
}

// prepare scales and clips an element of a gradient.
func (u UpdateAttrs) prepare(g, scale float64) float64 {
	g *= scale
	if u.ClipValue > 0 {
		g = within(g, u.ClipValue)
	}
	return g
}

// within limits the magnitude of x to most; NaN stays NaN.
func within(x, most float64) float64 { return min(max(x, -most), most) }

// squarable limits an element of a gradient of type t to what can be squared. A larger one would
// make a mean of squares infinite, and the element would never move again.
func squarable(g float64, t arena.DType) float64 { return within(g, numeric.MostSquared(t)) }

func refUpdate(attrs any, u UpdateAttrs, decoupled bool, in, out []Tensor, f rule) {
	scale := copyUpdate(u, in, out)
	if in[2].Data[0] != 0 {
		return
	}
	state := make([]float64, len(out)-1)
	for i, p := range in[0].Data {
		g := u.prepare(in[1].Data[i], scale)
		if !decoupled {
			g += u.Decay * p
		}
		for k := range state {
			state[k] = out[1+k].Data[i]
		}
		out[0].Data[i] = f(attrs, in[0].Type, in[3].Data, p, g, state)
		for k, s := range state {
			out[1+k].Data[i] = s
		}
	}
}

// updateCase has states such as the rules produce (the last one, a mean of squares, is at least 0),
// and in one case of eight a guard that is set. Results are sums of terms of size about 1, so that
// the default tolerance holds.
func updateCase[A Updater](r *rand.Rand, float arena.DType, states int, attrs func(*rand.Rand, UpdateAttrs) A) Case {
	u := UpdateAttrs{Scaled: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		u.ClipValue = 0.5 + r.Float64()
	}
	if r.IntN(2) == 0 {
		u.Decay = 0.1 * r.Float64()
	}
	p := Spec{float, randomShape(r, randomRank(r))}
	c := Case{Attrs: attrs(r, u), In: []Spec{p, p, GuardSpec, ControlsSpec}}
	first := 4
	if u.Scaled {
		first = 5
		c.In = append(c.In, Spec{arena.Float64, nil})
	}
	for range states {
		c.In = append(c.In, p)
	}
	stopped := r.IntN(8) == 0
	c.Fill = func(r *rand.Rand, k int, data []float64) {
		switch {
		case k < 2:
			between(r, data, -1, 1)
		case k == 2:
			data[0] = oneIf(stopped)
		case k == 3: // rate, update 3, bias corrections of Adam's usual means
			copy(data, []float64{0.1, 3, 1 - math.Pow(0.9, 3), 1 - math.Pow(0.999, 3)})
		case k == 4 && u.Scaled:
			data[0] = 0.25 + 0.75*r.Float64()
		case k == first+1 || k == first && states == 1: // a mean of squares: far enough above 0
			between(r, data, 0.5, 1)
		default:
			between(r, data, -1, 1)
		}
	}
	return c
}
