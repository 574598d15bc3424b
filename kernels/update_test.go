package kernels_test

import (
	"errors"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// step runs a rule once on one element with rate 0.1 and g = 1 from param 0 and states 0, and
// returns the outputs.
func step(t *testing.T, op *kernels.Op, attrs kernels.Updater, param, grad, guard, scale float64, states ...float64) []float64 {
	t.Helper()
	in := []kernels.Tensor{
		vector(arena.Float64, param), vector(arena.Float64, grad), vector(arena.Int32, guard, 0, 0, 0),
		vector(arena.Float64, 0.1, 1, 1-0.9, 1-0.999, 0, 0, 0, 0, 0, 0),
	}
	if attrs.Common().Scaled {
		in = append(in, kernels.Tensor{Spec: kernels.Spec{Type: arena.Float64}, Data: []float64{scale}})
	}
	for _, s := range states {
		in = append(in, vector(arena.Float64, s))
	}
	out, err := kernels.Eval(op, attrs, in)
	if err != nil {
		t.Fatal(err)
	}
	var y []float64
	for _, o := range out {
		y = append(y, o.Data[0])
	}
	return y
}

func near(got, want, tol float64) bool { return math.Abs(got-want) <= tol }

func TestRulesGiveHandComputedValues(t *testing.T) {
	plain := kernels.UpdateAttrs{}
	decay := kernels.UpdateAttrs{Decay: 0.5}
	adam := kernels.AdamAttrs{UpdateAttrs: plain, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	decayed := adam
	decayed.Decay = 0.5
	for _, c := range []struct {
		name   string
		op     *kernels.Op
		attrs  kernels.Updater
		param  float64
		states []float64
		want   []float64
	}{
		{"sgd", kernels.SGD, kernels.SGDAttrs{UpdateAttrs: plain}, 0, nil, []float64{-0.1}},
		{"sgd with decay", kernels.SGD, kernels.SGDAttrs{UpdateAttrs: decay}, 2, nil, []float64{2 - 0.1*(1+0.5*2)}},
		{"momentum", kernels.Momentum, kernels.MomentumAttrs{UpdateAttrs: plain, Momentum: 0.9}, 0, []float64{2}, []float64{-0.28, 2.8}},
		{"nesterov", kernels.Momentum, kernels.MomentumAttrs{UpdateAttrs: plain, Momentum: 0.9, Nesterov: true}, 0, []float64{2}, []float64{-0.352, 2.8}},
		{"rmsprop", kernels.RMSProp, kernels.RMSPropAttrs{UpdateAttrs: plain, Rho: 0.9}, 0, []float64{0.1}, []float64{-0.1 / math.Sqrt(0.19), 0.19}},
		{"first update of adam", kernels.Adam, adam, 0, []float64{0, 0}, []float64{-0.0999999990, 0.1, 0.001}},
		{"adam decays the gradient", kernels.Adam, decayed, 2, []float64{0, 0}, []float64{1.9 + 5e-10, 0.2, 0.004}},
		{"adamw decays the parameter", kernels.AdamW, decayed, 2, []float64{0, 0}, []float64{2 - 0.0999999990 - 0.1, 0.1, 0.001}},
		{"lion", kernels.Lion, kernels.LionAttrs{UpdateAttrs: decay, Beta1: 0.5, Beta2: 0.99}, 2, []float64{-0.2}, []float64{2 - 0.1*(1+1), -0.188}},
	} {
		got := step(t, c.op, c.attrs, c.param, 1, 0, 0, c.states...)
		for i, w := range c.want {
			if !near(got[i], w, 1e-10) {
				t.Errorf("%s: got %.10f, want %.10f", c.name, got, c.want)
				break
			}
		}
	}
}

func TestGradientsAreScaledThenClippedThenDecayed(t *testing.T) {
	a := kernels.SGDAttrs{UpdateAttrs: kernels.UpdateAttrs{Scaled: true, ClipValue: 1, Decay: 0.5}}
	got := step(t, kernels.SGD, a, 2, 8, 0, 0.25)[0] // 8·0.25 = 2, clipped to 1, plus 0.5·2
	if want := 2 - 0.1*2; !near(got, want, 1e-15) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestARaisedGuardStopsEveryRule(t *testing.T) {
	r := random(t)
	rules := 0
	for _, op := range kernels.All() {
		c := op.Cases(r, arena.Float32)
		if _, ok := c.Attrs.(kernels.Updater); !ok {
			continue
		}
		rules++
		in := kerneltest.Fill(r, c)
		in[2].Data[0] = 7
		for i := range in[1].Data {
			in[1].Data[i] = math.NaN()
		}
		out, err := kernels.Eval(op, c.Attrs, in)
		if err != nil {
			t.Fatal(err)
		}
		for k, u := range op.UpdatesFor(c.Attrs) {
			sameBits(t, op.Name, out[k], in[u])
		}
	}
	if rules != 9 {
		t.Errorf("%d rules, want 9", rules)
	}
}

func TestNormClippingScalesGradientsTogether(t *testing.T) {
	for _, c := range []struct {
		name       string
		grads      [][]float64
		unscale    float64 // 0: the gradients are not scaled
		max, scale float64
	}{
		{"[3 4] to 1", [][]float64{{3, 4}}, 0, 1, 0.2},
		{"two tensors", [][]float64{{3}, {4}}, 0, 1, 0.2},
		{"within the norm", [][]float64{{3, 4}}, 0, 5, 1},
		{"zeros", [][]float64{{0, 0}}, 0, 1, 1},
		{"infinite", [][]float64{{math.Inf(1)}}, 0, 1, math.NaN()},
		{"infinite, scaled", [][]float64{{3}, {math.Inf(1)}}, 1. / 1024, 1, math.NaN()},
		{"not a number", [][]float64{{math.NaN()}}, 0, 1, math.NaN()},
		{"1024·[3 4] to 1", [][]float64{{3072, 4096}}, 1. / 1024, 1, 0.2 / 1024},
		{"1024·[3 4] within the norm", [][]float64{{3072}, {4096}}, 1. / 1024, 5, 1. / 1024},
		{"zeros, scaled", [][]float64{{0, 0}}, 1. / 1024, 1, 1. / 1024},
	} {
		g := &kernels.Eager{}
		var squares []kernels.Value
		if c.unscale != 0 {
			squares = append(squares, g.Input(kernels.Tensor{Spec: kernels.Spec{Type: arena.Float64}, Data: []float64{c.unscale}}))
		}
		for _, x := range c.grads {
			squares = append(squares, g.Apply(kernels.SumSquares, nil, g.Input(vector(arena.Float32, x...))))
		}
		got := g.Tensor(g.Apply(kernels.ClipNorm, kernels.ClipNormAttrs{Max: c.max, Scaled: c.unscale != 0}, squares...)).Data[0]
		if !near(got, c.scale, 1e-15) && !(math.IsNaN(got) && math.IsNaN(c.scale)) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.scale)
		}
	}
	clipped := kernels.SGDAttrs{UpdateAttrs: kernels.UpdateAttrs{Scaled: true}}
	for grad, want := range map[float64]float64{3: -0.06, 4: -0.08} { // rate 0.1 times [0.6 0.8]
		if got := step(t, kernels.SGD, clipped, 0, grad, 0, 0.2)[0]; !near(got, want, 1e-15) {
			t.Errorf("update by %v clipped: got %v, want %v", grad, got, want)
		}
	}
}

func TestTheFirstTensorThatIsNotFiniteIsRemembered(t *testing.T) {
	guard := vector(arena.Int32, 0, 0, 0, 0)
	for _, c := range []struct {
		code int32
		x    float64
		want float64
	}{{1, 5, 0}, {2, math.Inf(-1), 2}, {3, math.NaN(), 2}, {4, 0, 2}} {
		guard = runStored(t, kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: c.code}, vector(arena.Float32, 1, c.x), guard)
		if guard.Data[0] != c.want {
			t.Errorf("after tensor %d with %v: guard %v, want %v", c.code, c.x, guard.Data[0], c.want)
		}
	}
}

func TestALabelThatIsNoClassIsNeverRead(t *testing.T) {
	logits := kernels.Tensor{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2, 3}}, Data: []float64{1, 2, 3, 1, 2, 3}}
	for _, bad := range []float64{-1, 3, 1e9} {
		labels := vector(arena.Int64, 2, bad)
		loss := runStored(t, kernels.CrossEntropy, nil, logits, labels).Data
		if want := math.Log(1 + math.Exp(-1) + math.Exp(-2)); !near(loss[0], want, 1e-6) || !math.IsNaN(loss[1]) {
			t.Errorf("label %v: loss %v, want [%v NaN]", bad, loss, want)
		}
		grad := runStored(t, kernels.CrossEntropyGrad, nil, logits, labels, vector(arena.Float32, 1, 1)).Data
		if math.IsNaN(grad[0]+grad[1]+grad[2]) || !math.IsNaN(grad[3]) || !math.IsNaN(grad[5]) {
			t.Errorf("label %v: gradient %v, want NaN in the second row only", bad, grad)
		}
		rows := runStored(t, kernels.Gather, nil, vector(arena.Float32, 7, 8, 9), labels)
		sameBits(t, "gather", rows, vector(arena.Float32, 9, 0))
		right := runStored(t, kernels.Correct, nil, logits, labels)
		sameBits(t, "correct", right, vector(arena.Float32, 1, 0))
	}
}

// failing is a host function that returns an error, or panics.
type failing struct{ err error }

func (f failing) Infer(in []kernels.Spec) ([]kernels.Spec, error) { return in, nil }
func (f failing) String() string                                  { return "failing" }
func (f failing) Run(_, _ [][]byte) error {
	if f.err == nil {
		panic("planted")
	}
	return f.err
}

func TestWhatAHostFunctionFailsWithReachesTheCaller(t *testing.T) {
	s := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2}}
	call := kernels.Call{Op: kernels.Host, Label: "layer/node", In: []kernels.Operand{{Spec: s}}, Out: []kernels.Operand{{Spec: s}}}
	bytes := func(kernels.Operand) []byte { return make([]byte, 8) }
	planted := errors.New("planted")
	call.Attrs = failing{planted}
	if err := kernels.Run(call, bytes); !errors.Is(err, planted) {
		t.Errorf("got %v, want an error that wraps the function's own", err)
	}
	call.Attrs = failing{}
	if err := kernels.Run(call, bytes); err == nil {
		t.Error("a panic of the function was lost")
	}
	if err := kernels.Run(call, func(kernels.Operand) []byte { return make([]byte, 7) }); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("operands of 7 bytes for 8: got %v, want an error that wraps ErrShape", err)
	}
}
