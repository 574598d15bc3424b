package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A sequence of updates has parts; a new parameter begins with each, so that its end tells how far
// the part has moved it.
const (
	updateElems = 300 // two blocks of Adam8, one of which is shorter
	updateParts = 8
	partUpdates = 45
	updateRate  = 0.01
)

// updateRule is an optimizer whose updates on a device are compared with those of another in
// float64.
type updateRule struct {
	name    string
	op      *kernels.Op
	attrs   kernels.Updater
	exact   *kernels.Op // the same with states of float64
	as      kernels.Updater
	loose   float64 // share of a part's way that rounding of the states moves an element by; 0: none
	mean    float64 // the same, on average over elements
	gentle  bool    // no gradients so large that their squares overflow
	squares bool    // its steps do not depend on the size of gradients
	states  func(kernels.Spec) []kernels.State
}

// updateRules are the rules of all optimizers. The betas of most forget within some updates, so that
// a part shows whether an element recovers.
func updateRules() []updateRule {
	fast := kernels.AdamAttrs{Beta1: 0.5, Beta2: 0.5, Epsilon: 1e-8}
	usual := kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	decayed := fast
	decayed.Decay = 0.01
	own := func(n int) func(kernels.Spec) []kernels.State {
		return func(p kernels.Spec) (all []kernels.State) {
			for range n {
				all = append(all, kernels.State{Spec: p})
			}
			return all
		}
	}
	rule := func(name string, op *kernels.Op, attrs kernels.Updater, states int, squares bool) updateRule {
		return updateRule{name: name, op: op, attrs: attrs, exact: op, as: attrs, squares: squares, states: own(states)}
	}
	rules := []updateRule{
		rule("sgd", kernels.SGD, kernels.SGDAttrs{}, 0, false),
		rule("momentum", kernels.Momentum, kernels.MomentumAttrs{Momentum: 0.5}, 1, false),
		rule("nesterov", kernels.Momentum, kernels.MomentumAttrs{Momentum: 0.5, Nesterov: true}, 1, false),
		rule("lion", kernels.Lion, kernels.LionAttrs{Beta1: 0.5, Beta2: 0.5}, 1, true),
		rule("rmsprop", kernels.RMSProp, kernels.RMSPropAttrs{Rho: 0.5, Epsilon: 1e-8}, 1, true),
		rule("adam", kernels.Adam, fast, 2, true),
		rule("usual adam", kernels.Adam, usual, 2, true),
		rule("adamw", kernels.AdamW, decayed, 2, true),
	}
	factors := rule("adafactor", kernels.Adafactor, kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Least: 1e-3}, 0, true)
	factors.states = kernels.AdafactorStates
	rules = append(rules, factors)
	factors.name, factors.gentle = "adafactor of gentle gradients", true
	rules = append(rules, factors)
	for _, c := range []struct {
		name  string
		attrs kernels.AdamAttrs
		exact *kernels.Op
	}{{"", fast, kernels.Adam}, {"usual ", usual, kernels.Adam}, {"decayed ", decayed, kernels.AdamW}} {
		decoupled := c.exact == kernels.AdamW
		rules = append(rules,
			updateRule{name: c.name + "adam16", op: kernels.Adam16, attrs: kernels.Adam16Attrs{AdamAttrs: c.attrs, Decoupled: decoupled},
				exact: c.exact, as: c.attrs, loose: 0.1, mean: 0.02, squares: true, states: kernels.Adam16States},
			updateRule{name: c.name + "adam8", op: kernels.Adam8, attrs: kernels.Adam8Attrs{AdamAttrs: c.attrs, Decoupled: decoupled},
				exact: c.exact, as: c.attrs, loose: 0.3, mean: 0.05, squares: true, states: kernels.Adam8States})
	}
	return rules
}

// Updates compares sequences of updates of every optimizer with its rule in float64, on gradients of
// all sizes. Where no square leaves the range of the type each part of a sequence moves an element as
// far. An element whose gradient was so large that its square overflows keeps finite states, never
// takes a step that the rule could not take, and moves as in float64 once both have forgotten it.
func Updates(t *testing.T, open func() (kernels.Device, error)) {
	b := openBench(t, open)
	for _, float := range floatTypes {
		for _, u := range updateRules() {
			t.Run(u.name+"/"+float.String(), func(t *testing.T) {
				r := random(t)
				s := newUpdateSequence(r, u, float)
				got, err := s.run(b)
				if err != nil {
					t.Fatal(err)
				}
				want, err := s.reference()
				if err != nil {
					t.Fatal(err)
				}
				if err := s.compare(got, want); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// updateSequence is one sequence of updates of a rule.
type updateSequence struct {
	updateRule
	float arena.DType
	grads [][]float64 // by update
	huge  []bool      // by element: the square of one of its gradients overflows
	quiet []bool      // by element: its gradients are so small that nothing moves
}

// newUpdateSequence returns a sequence with elements of each kind in turn.
func newUpdateSequence(r *rand.Rand, u updateRule, float arena.DType) *updateSequence {
	s := &updateSequence{updateRule: u, float: float, huge: make([]bool, updateElems), quiet: make([]bool, updateElems)}
	most, root := math.MaxFloat64, 0x1p511
	if float == arena.Float32 || u.loose > 0 { // states of 8 and 16 bits have the range of float32
		most, root = math.MaxFloat32, 0x1p63
	}
	s.grads = make([][]float64, updateParts*partUpdates)
	for t := range s.grads {
		s.grads[t] = make([]float64, updateElems)
	}
	for i := range updateElems {
		size, at, outlier := math.Pow(10, 2*r.Float64()-1), r.IntN(partUpdates), 100.0
		kind := i % 7
		if !u.gentle && i%kernels.Block8 == kernels.Block8/8 { // one in a block
			s.huge[i], kind, outlier = true, 5, root*math.Pow(most/root, r.Float64())/size
		}
		for t := range s.grads {
			g := &s.grads[t][i]
			switch *g = size; kind {
			case 1:
				*g *= r.NormFloat64()
			case 2:
				*g, s.quiet[i] = 0, true
			case 3: // its square counts as 0
				*g, s.quiet[i] = size*1e-25, u.op != kernels.Lion && u.op != kernels.Adafactor
			case 4:
				*g *= float64(1 + t%2*-2)
			case 5:
				if t == at {
					*g *= outlier
				}
			case 6:
				*g *= 1 + float64(t)/10
			}
			*g = kernels.Round(float, *g)
		}
	}
	return s
}

// controls returns the controls of update t, from 1.
func (s *updateSequence) controls(t int) []float64 {
	c := make([]float64, kernels.Controls)
	c[0], c[1] = updateRate, float64(t)
	switch a := s.as.(type) {
	case kernels.AdamAttrs:
		c[2], c[3] = 1-math.Pow(a.Beta1, float64(t)), 1-math.Pow(a.Beta2, float64(t))
	case kernels.AdafactorAttrs:
		c[2] = math.Pow(float64(t), -0.8)
	}
	return c
}

// param is the spec of a parameter. Adafactor's is a matrix.
func (s *updateSequence) param(float arena.DType) kernels.Spec {
	if s.op == kernels.Adafactor {
		return kernels.Spec{Type: float, Shape: kernels.Shape{updateElems / 20, 20}}
	}
	return kernels.Spec{Type: float, Shape: kernels.Shape{updateElems}}
}

// reference returns how far each part moves each element in float64.
func (s *updateSequence) reference() (parts [][]float64, err error) {
	spec := s.param(arena.Float64)
	states := []kernels.Tensor{}
	exact := updateRule{states: s.states}
	if s.exact != s.op {
		exact.states = func(p kernels.Spec) []kernels.State { return []kernels.State{{Spec: p}, {Spec: p}} }
	}
	for _, x := range exact.states(spec) {
		states = append(states, kernels.Tensor{Spec: x.Spec, Data: make([]float64, x.Shape.Elems())})
	}
	var param kernels.Tensor
	for t, g := range s.grads {
		if t%partUpdates == 0 {
			param = kernels.Tensor{Spec: spec, Data: make([]float64, updateElems)}
		}
		in := []kernels.Tensor{param, {Spec: spec, Data: g}, {Spec: kernels.GuardSpec, Data: make([]float64, 4)},
			{Spec: kernels.ControlsSpec, Data: s.controls(t + 1)}}
		out, err := kernels.Eval(s.exact, s.as, append(in, states...))
		if err != nil {
			return nil, err
		}
		if param, states = out[0], out[1:]; t%partUpdates == partUpdates-1 {
			parts = append(parts, param.Data)
		}
	}
	return parts, nil
}

// run returns how far each part moves each element on the device, and an error if a state is not
// finite.
func (s *updateSequence) run(b *bench) (parts [][]float64, err error) {
	spec, at := s.param(s.float), int64(0)
	var image []byte
	place := func(x kernels.Spec, data []float64) kernels.Operand {
		o := kernels.Operand{Spec: x, Ref: arena.Ref{Offset: at, Size: x.Bytes()}}
		at += arena.Round(x.Bytes())
		image = append(image, make([]byte, at-int64(len(image)))...)
		if data != nil {
			kernels.Store(image[o.Ref.Offset:], x.Type, data)
		}
		return o
	}
	guard := place(kernels.GuardSpec, nil)
	var states, params []kernels.Operand
	for _, x := range s.states(spec) {
		states = append(states, place(x.Spec, nil))
	}
	var calls []kernels.Call
	for t, g := range s.grads {
		if t%partUpdates == 0 {
			params = append(params, place(spec, nil))
		}
		p := params[len(params)-1]
		in := append([]kernels.Operand{p, place(spec, g), guard, place(kernels.ControlsSpec, s.controls(t+1))}, states...)
		calls = append(calls, kernels.Call{Op: s.op, Attrs: s.attrs, Label: "update", In: in, Out: append([]kernels.Operand{p}, states...)})
	}
	if n := b.dev.Workspace(s.op, s.attrs, kernels.Specs(calls[0].In), kernels.Specs(calls[0].Out)); n > 0 {
		work := place(kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{int(n)}}, nil)
		for i := range calls {
			calls[i].Work = work.Ref
		}
	}
	after, err := b.program(calls, image)
	if err != nil {
		return nil, err
	}
	read := func(o kernels.Operand) []float64 {
		x := make([]float64, o.Shape.Elems())
		kernels.Load(x, o.Type, after[o.Ref.Offset:][:o.Ref.Size])
		return x
	}
	for k, o := range states {
		for i, v := range read(o) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("element %d of state %d is %v", i, k, v)
			}
		}
	}
	for _, p := range params {
		parts = append(parts, read(p))
	}
	return parts, nil
}

// program runs calls once on memory with these bytes, and returns the bytes after it.
func (b *bench) program(calls []kernels.Call, image []byte) (after []byte, err error) {
	mem, err := b.dev.Alloc(int64(len(image)))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, mem.Free()) }()
	prog, err := b.dev.Bind(calls, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, prog.Close()) }()
	if err := firstOf(b.write(mem, image), prog.Launch(b.stream), b.stream.Sync()); err != nil {
		return nil, err
	}
	return b.read(mem)
}

// compare returns an error for the first element that a part moves otherwise than it should.
func (s *updateSequence) compare(got, want [][]float64) error {
	const way = updateRate * partUpdates // what steps of the size of the rate add up to
	for k := range want {
		drift, n := 0.0, 0
		for i, w := range want[k] {
			g := got[k][i]
			allowed := (1e-4 + s.loose) * way
			switch {
			case !s.squares:
				allowed = 1e-4 * updateRate * s.path(k, i)
			case s.quiet[i]:
				allowed = 1e-3 * way
			case s.op == kernels.Adafactor && s.anyHuge():
				w, allowed = 0, math.Sqrt(updateElems)*way // its root mean square is at most that of the rate
			case s.huge[i] && k < len(want)-1 && s.op != kernels.Lion:
				w, allowed = 0, 8*way
			default:
				drift, n = drift+(math.Abs(g)-math.Abs(w))/way, n+1
			}
			if !(math.Abs(g-w) <= allowed) {
				return fmt.Errorf("part %d moves element %d by %v, want %v to %v (huge %v, quiet %v)", k, i, g, w, allowed, s.huge[i], s.quiet[i])
			}
		}
		if s.loose > 0 && !(math.Abs(drift/float64(n)) <= s.mean) {
			return fmt.Errorf("part %d moves elements too far by %v of the way on average, want %v at most", k, drift/float64(n), s.mean)
		}
	}
	return nil
}

// path is the sum of the magnitudes of an element's gradients in part k and before.
func (s *updateSequence) path(k, i int) float64 {
	sum := 0.0
	for _, g := range s.grads[:(k+1)*partUpdates] {
		sum += math.Abs(g[i])
	}
	return sum
}

// anyHuge reports whether the sequence has elements whose squares overflow.
func (s *updateSequence) anyHuge() bool { return slices.Contains(s.huge, true) }
