package optim_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// reference is an optimizer of a vector p, written from the textbook: it changes p.
type reference func(p, g []float64, rate, decay float64)

// element is an optimizer of one number: it returns the new parameter.
type element func(p, g, rate, decay float64) float64

// each makes a reference of one for every number.
func each(one func() element) func() reference {
	return func() reference {
		var all []element
		return func(p, g []float64, rate, decay float64) {
			for i := range p {
				if i == len(all) {
					all = append(all, one())
				}
				p[i] = all[i](p[i], g[i], rate, decay)
			}
		}
	}
}

// references makes one for each name of optim.All, with the defaults that the documentation states.
var references = map[string]func() reference{
	"sgd": each(func() element {
		return func(p, g, rate, decay float64) float64 { return p - rate*(g+decay*p) }
	}),
	"momentum": each(func() element {
		v := 0.0
		return func(p, g, rate, decay float64) float64 {
			v = 0.9*v + (g + decay*p)
			return p - rate*v
		}
	}),
	"nesterov": each(func() element {
		v := 0.0
		return func(p, g, rate, decay float64) float64 {
			g += decay * p
			v = 0.9*v + g
			return p - rate*(g+0.9*v)
		}
	}),
	"rmsprop": each(func() element {
		s := 0.0
		return func(p, g, rate, decay float64) float64 {
			g += decay * p
			s = 0.9*s + 0.1*g*g
			return p - rate*g/(math.Sqrt(s)+1e-8)
		}
	}),
	"adam": each(func() element {
		step := adam()
		return func(p, g, rate, decay float64) float64 { return p - rate*step(g+decay*p) }
	}),
	"adamw": each(func() element {
		step := adam()
		return func(p, g, rate, decay float64) float64 { return p*(1-rate*decay) - rate*step(g) }
	}),
	"lion": each(func() element {
		m := 0.0
		return func(p, g, rate, decay float64) float64 {
			u := 0.9*m + 0.1*g
			m = 0.99*m + 0.01*g
			if u > 0 {
				return p - rate*(1+decay*p)
			}
			return p - rate*(-1+decay*p)
		}
	}),
	"adafactor": func() reference {
		var v []float64 // of a vector, which is not factored
		t := 0.0
		rms := func(x []float64) float64 {
			sum := 0.0
			for _, a := range x {
				sum += a * a
			}
			return math.Sqrt(sum / float64(len(x)))
		}
		return func(p, g []float64, rate, decay float64) {
			t++
			beta := 1 - math.Pow(t, -0.8)
			if v == nil {
				v = make([]float64, len(p))
			}
			u := make([]float64, len(p))
			for i := range p {
				v[i] = beta*v[i] + (1-beta)*(g[i]*g[i]+1e-30)
				u[i] = g[i] / math.Sqrt(v[i])
			}
			alpha, limit := math.Max(1e-3, rms(p))*rate, math.Max(1, rms(u))
			for i := range p {
				p[i] -= alpha*u[i]/limit + rate*decay*p[i]
			}
		}
	},
}

// Rules with narrow states follow those with wide ones, within the tolerance of loose.
func init() {
	references["adam8"], references["adamw8"] = references["adam"], references["adamw"]
	references["adam16"], references["adamw16"] = references["adam"], references["adamw"]
}

// loose is the error allowed where it is not that of two orders of the same sums. 20 updates of Adam at 0.001 move a parameter by up to
// 0.02; a mean or root in a byte errs by at most 1/14 of itself down to 1/64 of the largest, which leaves half of that of the step. A mean in
// bfloat16 errs by less than 1/128 of itself each time, up or down.
var loose = map[string]float64{"adam8": 1e-3, "adamw8": 1e-3, "adam16": 1e-3, "adamw16": 1e-3}

func adam() func(g float64) float64 {
	m, v, t := 0.0, 0.0, 0.0
	return func(g float64) float64 {
		t++
		m += 0.1 * (g - m)
		v += 0.001 * (g*g - v)
		return m / (1 - math.Pow(0.9, t)) / (math.Sqrt(v/(1-math.Pow(0.999, t))) + 1e-8)
	}
}

var rates = map[string]float64{"adafactor": 0.01, "sgd": 0.01, "momentum": 0.01, "nesterov": 0.01, "rmsprop": 0.001, "adam": 0.001, "adamw": 0.001, "adam8": 0.001, "adamw8": 0.001, "adam16": 0.001, "adamw16": 0.001, "lion": 0.0001}

// withDecay returns o with a decay.
func withDecay(o optim.Optimizer, decay float64) optim.Optimizer {
	switch o := o.(type) {
	case optim.SGD:
		o.Decay = decay
		return o
	case optim.RMSProp:
		o.Decay = decay
		return o
	case optim.Adam:
		o.Decay = decay
		return o
	case optim.AdamW:
		o.Decay = decay
		return o
	case optim.Lion:
		o.Decay = decay
		return o
	case optim.Adafactor:
		o.Decay = decay
		return o
	}
	return o
}

// model is a parameter under an optimizer, run through the reference of its operation.
type model struct {
	t        *testing.T
	op       *kernels.Op
	attrs    any
	in       []kernels.Tensor
	controls []float64
	scale    []float64 // nil where the operation has none
}

func newModel(t *testing.T, o optim.Optimizer, clip optim.Clip, param []float64) *model {
	t.Helper()
	m := &model{t: t, op: o.Op(), attrs: o.Attrs(clip, clip.Norm > 0), controls: make([]float64, optim.Controls)}
	spec := kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{len(param)}}
	m.in = []kernels.Tensor{
		{Spec: spec, Data: param},
		{Spec: spec, Data: make([]float64, len(param))},
		{Spec: kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{4}}, Data: make([]float64, 4)},
		{Spec: kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{optim.Controls}}, Data: m.controls},
	}
	if clip.Norm > 0 {
		m.scale = []float64{1}
		m.in = append(m.in, kernels.Tensor{Spec: kernels.Spec{Type: arena.Float64}, Data: m.scale})
	}
	for _, s := range o.States(spec) {
		m.in = append(m.in, kernels.Tensor{Spec: s.Spec, Data: make([]float64, s.Shape.Elems())})
	}
	return m
}

// step runs one update in place.
func (m *model) step(grad []float64) {
	m.t.Helper()
	copy(m.in[1].Data, grad)
	specs := make([]kernels.Spec, len(m.in))
	for i, x := range m.in {
		specs[i] = x.Spec
	}
	outs, err := m.op.Infer(m.attrs, specs)
	if err != nil {
		m.t.Fatal(err)
	}
	out := make([]kernels.Tensor, len(outs))
	for i, s := range outs {
		out[i] = kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
	}
	m.op.Ref(m.attrs, m.in, out)
	for i, k := range m.op.UpdatesFor(m.attrs) {
		copy(m.in[k].Data, out[i].Data)
	}
}

func TestEveryOptimizerIsItsTextbookFor20Updates(t *testing.T) {
	t.Parallel()
	schedule := optim.Warmup{Steps: 5, Then: optim.Cosine{Steps: 10, Floor: 0.1}}
	for _, n := range optim.All() {
		for _, clip := range []optim.Clip{{}, {Value: 0.5}, {Norm: 1}, {Value: 0.25, Norm: 1}} {
			for _, decay := range []float64{0, 0.1} {
				t.Run(fmt.Sprintf("%s clip %v decay %v", n.Name, clip, decay), func(t *testing.T) {
					if references[n.Name] == nil {
						t.Fatalf("optimizer %q has no reference in this test", n.Name)
					}
					r := rand.New(rand.NewPCG(seed.Value(), 1))
					o, size := n.Optimizer, 7
					want, param, ref := make([]float64, size), make([]float64, size), references[n.Name]()
					for i := range want {
						want[i] = r.NormFloat64()
						param[i] = want[i]
					}
					used := decay
					if decay > 0 {
						o = withDecay(o, decay)
					} else if strings.HasPrefix(n.Name, "adamw") {
						used = 0.01 // its default
					}
					m := newModel(t, o, clip, param)
					grad := make([]float64, size)
					for step := int64(1); step <= 20; step++ {
						norm := 0.0
						for i := range grad {
							grad[i] = r.NormFloat64()
							norm += grad[i] * grad[i]
						}
						scale := 1.0
						if clip.Norm > 0 {
							scale = math.Min(1, clip.Norm/math.Sqrt(norm))
							m.scale[0] = scale
						}
						if err := optim.WriteControls(o, schedule, step, m.controls); err != nil {
							t.Fatal(err)
						}
						rate := rates[n.Name] * min(float64(step)/5, 1)
						if step > 5 {
							done := math.Min(float64(step-6)/10, 1)
							rate *= 0.1 + 0.45*(1+math.Cos(math.Pi*done))
						}
						prepared := make([]float64, size)
						for i, g := range grad {
							if prepared[i] = g * scale; clip.Value > 0 {
								prepared[i] = math.Max(-clip.Value, math.Min(clip.Value, prepared[i]))
							}
						}
						ref(want, prepared, rate, used)
						m.step(grad)
						for i := range want {
							// Two orders of the same 20 sums and products.
							if math.Abs(param[i]-want[i]) > max(1e-12, loose[n.Name]) {
								t.Fatalf("update %d element %d: got %v, want %v (EVENKEEL_SEED=%d)", step, i, param[i], want[i], seed.Value())
							}
						}
					}
				})
			}
		}
	}
}

func TestAdamsFirstUpdateCountsFromOne(t *testing.T) {
	t.Parallel()
	// An update that counts from 2 would give -0.0744136813.
	p := []float64{0}
	o := optim.Adam{Rate: 0.1}
	m := newModel(t, o, optim.Clip{}, p)
	if err := optim.WriteControls(o, nil, 1, m.controls); err != nil {
		t.Fatal(err)
	}
	m.step([]float64{1})
	if math.Abs(p[0]+0.0999999990) > 1e-12 {
		t.Errorf("got %.10f, want -0.0999999990", p[0])
	}
}

func TestEveryOptimizerStopsWhileTheGuardIsSet(t *testing.T) {
	t.Parallel()
	for _, n := range optim.All() {
		p := []float64{1, 2}
		m := newModel(t, n.Optimizer, optim.Clip{}, p)
		if err := optim.WriteControls(n.Optimizer, nil, 1, m.controls); err != nil {
			t.Fatal(err)
		}
		m.in[2].Data[0] = 7
		m.step([]float64{math.NaN(), 1})
		if p[0] != 1 || p[1] != 2 {
			t.Errorf("%s: parameters became %v although the guard is set", n.Name, p)
		}
		for k, x := range m.in[4:] {
			if slices.ContainsFunc(x.Data, func(v float64) bool { return v != 0 }) {
				t.Errorf("%s: state %s became %v although the guard is set", n.Name, n.Optimizer.States(m.in[0].Spec)[k].Name, x.Data)
			}
		}
	}
}

func TestControlsAllocateNothing(t *testing.T) {
	var schedule optim.Schedule = optim.Warmup{Steps: 5, Then: optim.Cosine{Steps: 10}} // converted to the interface once
	dst := make([]float64, optim.Controls)
	for _, n := range optim.All() {
		var step int64
		if got := testing.AllocsPerRun(100, func() {
			step++
			if err := optim.WriteControls(n.Optimizer, schedule, step, dst); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s: %v objects an update, want 0", n.Name, got)
		}
	}
}

func TestBiasCorrectionIsExactForLargeAndSmallUpdates(t *testing.T) {
	t.Parallel()
	dst := make([]float64, optim.Controls)
	for _, step := range []int64{1, 2, 10, 1000, 1 << 40} {
		optim.Adam{Beta2: 0.999}.Controls(step, dst)
		for i, beta := range []float64{0.9, 0.999} {
			want := 1 - math.Pow(beta, float64(step))
			if math.Abs(dst[2+i]-want) > 1e-14 || dst[1] != float64(step) {
				t.Errorf("update %d: controls %v, want 1-%v^t = %v", step, dst, beta, want)
			}
		}
	}
}

func TestParseKnowsEveryNameAndListsThemForOthers(t *testing.T) {
	t.Parallel()
	_, err := optim.Parse("adagrad")
	if !errors.Is(err, optim.ErrOption) {
		t.Fatalf("got %v, want %v", err, optim.ErrOption)
	}
	for _, n := range optim.All() {
		if got, e := optim.Parse(n.Name); e != nil || got != n.Optimizer {
			t.Errorf("%s: got %v, %v", n.Name, got, e)
		}
		if e := n.Optimizer.Validate(); e != nil {
			t.Errorf("%s: the defaults are refused: %v", n.Name, e)
		}
		if !strings.Contains(err.Error(), n.Name) {
			t.Errorf("error %q does not list %s", err, n.Name)
		}
	}
}

func TestAtRateChangesTheRateAlone(t *testing.T) {
	t.Parallel()
	a, b := make([]float64, optim.Controls), make([]float64, optim.Controls)
	for _, n := range optim.All() {
		o, err := optim.AtRate(n.Optimizer, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		n.Optimizer.Controls(3, a)
		o.Controls(3, b)
		a[0] = 0.5
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("%s: controls %v, want %v", n.Name, b, a)
				break
			}
		}
		if o.Attrs(optim.Clip{}, false) != n.Optimizer.Attrs(optim.Clip{}, false) {
			t.Errorf("%s: attributes changed with the rate", n.Name)
		}
	}
}

func TestBadOptionsAreNamedAllAtOnce(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name string
		v    interface{ Validate() error }
		want []string
	}{
		{"sgd", optim.SGD{Rate: -1, Momentum: 1, Decay: nan}, []string{"sgd", "Rate is -1", "Momentum is 1", "Decay is NaN"}},
		{"nesterov alone", optim.SGD{Nesterov: true}, []string{"Nesterov needs Momentum"}},
		{"rmsprop", optim.RMSProp{Rate: inf, Rho: -0.1, Epsilon: -1}, []string{"rmsprop", "Rate is +Inf", "Rho is -0.1", "Epsilon is -1"}},
		{"adam", optim.Adam{Rate: nan, Beta1: 1, Beta2: 1.5}, []string{"adam:", "Rate is NaN", "Beta1 is 1", "Beta2 is 1.5"}},
		{"adamw", optim.AdamW{Decay: -1, Storage: 7}, []string{"adamw:", "Decay is -1", "Storage is 7"}},
		{"lion", optim.Lion{Beta1: nan}, []string{"lion", "Beta1 is NaN"}},
		{"adafactor", optim.Adafactor{Power: -1, Epsilon: 1e-40, MinRMS: nan, Limit: -1}, []string{"adafactor:", "Power is -1", "Epsilon is 1e-40", "MinRMS is NaN", "Limit is -1"}},
		{"tiny sgd", optim.SGD{Rate: 1e-40, Momentum: 1 - 1e-9, Decay: 1e-30}, []string{"Rate is 1e-40, must be 0 or 1.08e-19 or more", "Momentum is 0.999999999, must be 0.999999 or less", "Decay is 1e-30"}},
		{"tiny adam", optim.Adam{Epsilon: 1e-40, Beta2: 1 - 1e-12}, []string{"Epsilon is 1e-40, must be 0 or 3.47e-12 or more", "Beta2 is 0.999999999999"}},
		{"tiny rmsprop", optim.RMSProp{Epsilon: 1e-17}, []string{"Epsilon is 1e-17, must be 0 or 1.1e-17 or more"}},
		{"tiny adafactor", optim.Adafactor{MinRMS: 1e-40, Limit: 1e-40}, []string{"MinRMS is 1e-40", "Limit is 1e-40"}},
		{"tiny clip", optim.Clip{Value: 1e-40, Norm: 1e-20}, []string{"Value is 1e-40", "Norm is 1e-20, must be 0 or 1.08e-19 or more"}},
		{"tiny floor", optim.Cosine{Steps: 1, Floor: 1e-40}, []string{"Floor is 1e-40"}},
		{"huge adamw", optim.AdamW{Rate: 1e39, Epsilon: 1e39, Decay: 1e39}, []string{"Rate is 1e+39, must be 9.22e+18 or less", "Epsilon is 1e+39", "Decay is 1e+39"}},
		{"adam in bytes", optim.Adam{Beta1: 0.9, Beta2: 0.81, Storage: optim.Block8}, []string{"Beta2 is 0.81, must be above the square of Beta1, 0.9"}},
		{"clip", optim.Clip{Value: -1, Norm: nan}, []string{"clip", "Value is -1", "Norm is NaN"}},
		{"step", optim.Step{Factor: -1}, []string{"step", "Every is 0", "Factor is -1"}},
		{"cosine", optim.Cosine{Steps: -3, Floor: 2}, []string{"cosine", "Steps is -3", "Floor is 2"}},
		{"warmup", optim.Warmup{Then: optim.Cosine{}}, []string{"warmup", "Steps is 0", "cosine"}},
	} {
		err := c.v.Validate()
		if !errors.Is(err, optim.ErrOption) {
			t.Errorf("%s: got %v, want %v", c.name, err, optim.ErrOption)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", c.name, err, w)
			}
		}
	}
}

func TestAdafactorsRateAndWeight(t *testing.T) {
	t.Parallel()
	dst := make([]float64, optim.Controls)
	for _, c := range []struct {
		o            optim.Adafactor
		t            int64
		rate, weight float64
	}{
		{optim.Adafactor{}, 1, 0.01, 1},
		{optim.Adafactor{}, 32, 0.01, 1.0 / 16},
		{optim.Adafactor{}, 1_000_000, 0.001, math.Pow(10, -4.8)},
		{optim.Adafactor{Absolute: true, Rate: 0.5, Power: 0.5}, 16, 0.5, 0.25},
		{optim.Adafactor{Rate: 0.5}, 16, 0.25, math.Pow(2, -3.2)},
	} {
		c.o.Controls(c.t, dst)
		if math.Abs(dst[0]-c.rate) > 1e-15 || dst[1] != float64(c.t) || math.Abs(dst[2]-c.weight) > 1e-15 {
			t.Errorf("%+v: update %d has controls %v, want rate %v and weight %v", c.o, c.t, dst, c.rate, c.weight)
		}
	}
}
