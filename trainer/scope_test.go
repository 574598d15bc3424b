package trainer_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// composed reads its input twice through shared layers in nested scopes, shares a matrix with its
// transposed, adds two losses with a weight that is a scalar, and has two more outputs.
func composed(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	enc := net.Shared("encoder")
	branch := func(x *gorgonia.Node) *gorgonia.Node {
		h := enc.BatchNorm(enc.Dense(x, "first", 6, nil), "norm", layers.Tanh)
		return enc.Scope("block").Dense(h, "second", 4, layers.Tanh)
	}
	a := branch(x)
	b := branch(net.Affine(a, "turned", -1, 0))
	h := net.MatMul(net.Add(a, b, "sum"), net.Parameter("encoder/block/second/w"), "back", layers.Transposed{B: true})
	logits := net.Scope("head").Dense(h, "out", 3, nil)
	y := net.Labels("y", batch)
	apart := net.Huber(a, b, 0.5, "loss/apart")
	rows := net.Add(net.CrossEntropySmooth(logits, y, 0.1, "loss/classes"), net.Mul(apart, net.Scalar("loss/balance", 0.5), ""), "loss/rows")
	m, err := net.Model(logits, rows, nil)
	if err == nil {
		m.Correct, m.Outputs = net.Correct(logits, y, "correct"), gorgonia.Nodes{a, b}
	}
	return m, net.Err()
}

func TestNamesOfScopesSelectAllThatIsInThem(t *testing.T) {
	nested := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		enc := net.Scope("encoder")
		h := enc.Dense(x, "first", 64, layers.Tanh)
		h = enc.Scope("block").Dense(h, "second", 64, layers.Tanh)
		h = net.Dense(h, "encoder2", 64, layers.Tanh) // its name begins like that of the scope
		return net.Classifier(x, net.Dense(h, "out", 3, nil))
	}
	names := func(layers ...string) (all []string) {
		for _, l := range layers {
			all = append(all, l+"/b", l+"/w")
		}
		return all
	}
	ds := samples(t, 24, 4, 3)
	plan := func(t *testing.T, opt trainer.Options) *report.Plan {
		t.Helper()
		p, err := trainer.Plan(t.Context(), nested, opt)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const first, second = "encoder/first", "encoder/block/second"
	cases := []struct {
		name   string
		layers []string
	}{
		{"encoder", []string{second, first}},
		{"encoder/block", []string{second}},
		{"encoder/block/second", []string{second}},
		{"encoder/first", []string{first}},
		{"encoder2", []string{"encoder2"}},
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		base := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Sequential: true}
		plain := made(t, nested, base)
		before := learned(t, plain)
		fit(t, plain, ds)
		want := learned(t, plain)
		for _, c := range cases {
			opt := base
			opt.Frozen = []string{c.name}
			var kept []string
			after := learnedOf(t, nested, opt, ds)
			for name := range after {
				if after[name] == before[name] {
					kept = append(kept, name)
				}
			}
			if slices.Sort(kept); !slices.Equal(kept, names(c.layers...)) {
				t.Errorf("frozen %q: %q stayed as they were, want %q", c.name, kept, names(c.layers...))
			}
			// Each layer has a product and a tanh to compute again, and a sum.
			opt = base
			opt.Recompute.Layers = []string{c.name}
			all := plan(t, opt).Programs[0].Recomputed
			opt.Recompute.Layers = c.layers
			if n := plan(t, opt).Programs[0].Recomputed; n == 0 || n != all {
				t.Errorf("recompute %q: %d instructions, %q have %d", c.name, all, c.layers, n)
			}
			if d := differing(want, learnedOf(t, nested, opt, ds)); d != nil {
				t.Errorf("recompute %q: %q differ", c.name, d)
			}
			opt = base
			opt.Precision, opt.KeepFloat32 = arena.BFloat16, []string{c.name}
			short := learnedOf(t, nested, opt, ds)
			opt.KeepFloat32 = c.layers
			if d := differing(short, learnedOf(t, nested, opt, ds)); d != nil {
				t.Errorf("keep float32 %q: %q differ from those of %q", c.name, d, c.layers)
			}
			opt.KeepFloat32 = nil
			if d := differing(short, learnedOf(t, nested, opt, ds)); d == nil {
				t.Errorf("keep float32 %q has no effect", c.name)
			}
		}
		opt := base
		opt.Precision, opt.KeepFloat32 = arena.BFloat16, []string{"encoder", "encoder2", "out"}
		if d := differing(want, learnedOf(t, nested, opt, ds)); d != nil {
			t.Errorf("all layers are kept in float32, and %q differ", d)
		}
		for _, name := range []string{"enc", "block", "first", "encoder/first/w/x"} {
			for what, opt := range map[string]trainer.Options{
				"frozen":       {Frozen: []string{name}},
				"recompute":    {Recompute: trainer.Recompute{Layers: []string{name}}},
				"keep float32": {Precision: arena.BFloat16, KeepFloat32: []string{name}},
			} {
				opt.Batch = 8
				if _, err := trainer.Plan(t.Context(), nested, opt); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s %q: got %v, want ErrOption that names it", what, name, err)
				}
			}
		}
	})
	t.Run("offload", func(t *testing.T) {
		base := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{Seed: 5}), Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Sequential: true}
		want := learnedOf(t, nested, base, ds)
		for _, c := range cases {
			opt, listed := base, base
			opt.Offload.Layers, listed.Offload.Layers = []string{c.name}, c.layers
			if n := plan(t, opt).Offloaded; n == 0 || n != plan(t, listed).Offloaded {
				t.Errorf("offload %q: %d bytes, %q have %d", c.name, n, c.layers, plan(t, listed).Offloaded)
			}
			if d := differing(want, learnedOf(t, nested, opt, ds)); d != nil {
				t.Errorf("offload %q: %q differ", c.name, d)
			}
		}
		base.Offload.Layers = []string{"block"}
		if _, err := trainer.Plan(t.Context(), nested, base); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("offload %q: got %v, want ErrOption", "block", err)
		}
	})
}

// The loss is scale·mean(x·w): its gradient is scale·mean(x), and the scale itself has none.
func TestAScalarIsWrittenBetweenStepsAndNotTrained(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = gorgonia.Float64
		x := net.Input("x", batch, 1)
		y := net.MatMul(x, net.Param("layer/w", layers.Zeros{}, 1, 1), "y", layers.Transposed{})
		loss := net.Mul(net.Mean(y, "", layers.Reduce{}), net.Scalar("loss/scale", 0.5), "loss")
		return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params()}, net.Err()
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1, 2, 3, 6) // of mean 3
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1}}
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Memory = plan.Total
		tr := made(t, model, opt)
		params, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(params, func(p trainer.Param) bool { return p.Name == "loss/scale" })
		if i < 0 || !params[i].Frozen || len(params[i].Spec.Shape) != 0 || plan.Category("gradients") != 256 {
			t.Fatalf("parameters %+v, %d bytes of gradients", params, plan.Category("gradients"))
		}
		want := 0.0
		for _, scale := range []float64{0.5, -2, 0, 8} {
			b := make([]byte, 8)
			if binary.NativeEndian.PutUint64(b, math.Float64bits(scale)); scale != 0.5 { // the model has it
				if err := params[i].Write(b); err != nil {
					t.Fatal(err)
				}
			}
			fit(t, tr, ds)
			want -= 3 * scale
			if got := weight(t, tr); got != want {
				t.Errorf("scale %v: w is %v, want %v", scale, got, want)
			}
			if err := params[i].Read(b); err != nil || math.Float64frombits(binary.NativeEndian.Uint64(b)) != scale {
				t.Errorf("scale %v: %v, %v after a step", scale, b, err)
			}
		}
	})
}

// A model that lists a parameter as frozen is that of Options.Frozen.
func TestAParameterThatTheModelFreezesIsLikeOneOfTheOptions(t *testing.T) {
	frozen := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := normed(g, batch)
		for i := range m.Params {
			m.Params[i].Frozen = m.Params[i].Node.Name() == "hidden/w"
		}
		for i := range m.Statistics {
			m.Statistics[i].Frozen = true
		}
		return m, err
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()}
		other := opt
		other.Frozen = []string{"hidden/w", "bn/mean", "bn/variance"}
		got, want := learnedOf(t, frozen, opt, ds), learnedOf(t, normed, other, ds)
		if d := differing(got, want); d != nil || len(got) != len(want) {
			t.Errorf("%q differ", d)
		}
		if d := differing(got, learnedOf(t, normed, opt, ds)); !slices.Contains(d, "hidden/w") || !slices.Contains(d, "bn/mean") {
			t.Errorf("only %q differ from what trains everything", d)
		}
	})
}
