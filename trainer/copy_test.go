package trainer_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// twins are two networks of the same layers, policy and target, whose difference is trained to be y.
func twins(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	tower := func(name string) *gorgonia.Node {
		h := net.Dense(x, name+"/hidden", 8, layers.ReLU)
		return net.Dense(h, name+"/out", 1, nil)
	}
	policy, target := tower("policy"), tower("target")
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	return net.Regressor(x, gorgonia.Must(gorgonia.Sub(policy, target)))
}

// differences returns n samples of twins.
func differences(t testing.TB, n int) *dataloader.Slices {
	x, y := make([]float32, 4*n), make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
		y[i/4] += x[i]
	}
	return columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("y", y, 1))
}

// A target network in the arena of its policy, frozen for training, gets the bits of the policy by CopyParams, and follows it by MixParams: in exactly
// the bytes of the plan, with whatever is offloaded.
func TestATargetFollowsItsPolicy(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := differences(t, 24)
		for _, offload := range []trainer.Offload{{}, {State: true}, {Parameters: true}} {
			if (offload.State || offload.Parameters) && dev.Unified() {
				continue
			}
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.05}, Offload: offload,
				Frozen: []string{"target/hidden", "target/out"}}
			opt = exactly(t, mix{model: twins}, opt)
			tr := made(t, twins, opt)
			for round := range 3 {
				before := numbersOf(t, tr.Params)
				fit(t, tr, ds)
				now := numbersOf(t, tr.Params)
				for _, name := range []string{"/hidden/w", "/out/b"} {
					if policy, target := "policy"+name, "target"+name; !slices.Equal(now[target], before[target]) || slices.Equal(now[policy], before[policy]) {
						t.Fatalf("round %d: training moved %q, or left %q", round, target, policy)
					}
				}
				if err := tr.MixParams("target", "policy/", 0.25); err != nil {
					t.Fatal(err)
				}
				mixed := numbersOf(t, tr.Params)
				for name, w := range now {
					if source, ok := strings.CutPrefix(name, "target"); ok {
						for i := range w {
							w[i] += 0.25 * (now["policy"+source][i] - w[i])
						}
					}
				}
				if !equalNumbers(mixed, now, 1e-6) {
					t.Fatalf("round %d, offload %v: mixed to %v, want %v", round, offload, mixed, now)
				}
				if err := tr.CopyParams("target", "policy"); err != nil {
					t.Fatal(err)
				}
				copied := learned(t, tr)
				for name, b := range copied {
					if source, ok := strings.CutPrefix(name, "target"); ok && b != copied["policy"+source] {
						t.Errorf("round %d, offload %v: %q is not a copy", round, offload, name)
					}
				}
			}
			if s := tr.Stats().Arena; s.Reserved != opt.Memory {
				t.Errorf("%d bytes reserved, want %d", s.Reserved, opt.Memory)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The first call with two prefixes prepares; later ones allocate nothing, neither on the heap nor on the device.
func TestCopiesAllocateNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := differences(t, 8)
		tr := made(t, twins, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Frozen: []string{"target/hidden", "target/out"}})
		fit(t, tr, ds)
		weight := 0.1
		once := func() {
			weight += 0.001
			if err := errors.Join(tr.MixParams("target", "policy", weight), tr.CopyParams("policy/hidden", "target/hidden")); err != nil {
				t.Error(err)
			}
		}
		once()
		before, ok := countOf(dev)
		if n := testing.AllocsPerRun(20, once); n > 0 && dev.Name() != "emu" && !cputest.Race {
			t.Errorf("%v heap objects a copy and a mix, want 0", n)
		}
		if after, _ := countOf(dev); ok && (after.allocs != before.allocs || after.pins != before.pins) {
			t.Errorf("copies allocate: %+v, then %+v", before, after)
		}
		// More pairs of prefixes than are kept ready.
		for range 3 {
			for _, pair := range [][2]string{{"hidden/w", "out/w"}, {"hidden/w", "hidden/w"}, {"hidden/b", "hidden/b"}, {"out/w", "out/w"}, {"out/b", "out/b"},
				{"hidden", "hidden"}, {"out", "out"}, {"", ""}} {
				for _, k := range []string{"policy", "target"} {
					other := map[string]string{"policy": "target", "target": "policy"}[k]
					err := tr.MixParams(strings.TrimSuffix(k+"/"+pair[0], "/"), strings.TrimSuffix(other+"/"+pair[1], "/"), 0.5)
					if (err != nil) != (pair[0] != pair[1]) {
						t.Errorf("%v from %s: %v", pair, other, err)
					}
				}
			}
		}
	})
}

func TestWrongCopiesAreRefused(t *testing.T) {
	ds := samples(t, 8, 4, 3)
	tr := made(t, stacked, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields()})
	before := learned(t, tr)
	for _, c := range []struct {
		dst, src string
		want     []string
	}{
		{"a", "b", []string{`"a/0/b" is float32 (8), "b/0/b" is float32 (6)`, `"a/0/w" is float32 (4, 8)`, `"a/1/w" has no counterpart in "b"`}},
		{"b", "a", []string{`"a/1/b" has no counterpart in "b"`}},
		{"c", "a", []string{`no parameter begins with "c"`}},
		{"a", "", []string{`no parameter begins with ""`}},
		{"a", "a", []string{`"a" is part of "a"`}},
		{"a/0", "a", []string{`"a/0" is part of "a"`}},
		{"a", "a/0/", []string{`"a/0/" is part of "a"`}},
		{"a/", "a/0/", []string{`"a/0/" is part of "a/"`}},
		{"ou", "a", []string{`no parameter begins with "ou"`}},
	} {
		err := tr.CopyParams(c.dst, c.src)
		var e *trainer.CopyError
		if !errors.As(err, &e) || !errors.Is(err, trainer.ErrOption) || e.Dst != c.dst || e.Src != c.src {
			t.Errorf("%q to %q: got %v, want a CopyError", c.src, c.dst, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q to %q: %v does not contain %s", c.src, c.dst, err, want)
			}
		}
	}
	for _, w := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if m := wantError(tr.MixParams("a/0", "a/1", w), trainer.ErrOption, fmt.Sprint("weight ", w)); m != "" {
			t.Error(m)
		}
	}
	if d := differing(before, learned(t, tr)); len(d) > 0 {
		t.Errorf("refused copies changed %q", d)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	for _, closed := range []*trainer.Trainer{tr, nil} {
		if err := closed.CopyParams("a", "b"); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("closed: got %v", err)
		}
	}
}

// stacked is layers a/0 and a/1 of 8, b/0 of 6, and out.
func stacked(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	h := net.Dense(net.Dense(x, "a/0", 8, layers.ReLU), "a/1", 8, layers.ReLU)
	return net.Classifier(x, net.Dense(net.Dense(h, "b/0", 6, layers.ReLU), "out", 3, nil))
}

// While a pass runs a copy returns ErrBusy.
func TestACopyDuringAPassIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := differences(t, 16)
		var tr *trainer.Trainer
		var err error
		tr = made(t, twins, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Progress: func(trainer.Progress) {
			err = tr.CopyParams("target", "policy")
		}})
		fit(t, tr, ds)
		if !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	})
}

// Running statistics are copied with the parameters.
func TestACopyIncludesRunningStatistics(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			a := net.BatchNorm(net.Dense(x, "a/dense", 4, nil), "a/norm", nil)
			b := net.BatchNorm(net.Dense(x, "b/dense", 4, nil), "b/norm", nil)
			if err := net.Err(); err != nil {
				return trainer.Model{}, err
			}
			return net.Classifier(x, gorgonia.Must(gorgonia.Add(a, b)))
		}
		ds := samples(t, 16, 4, 3)
		tr := made(t, model, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		fit(t, tr, ds)
		if err := tr.CopyParams("b", "a"); err != nil {
			t.Fatal(err)
		}
		all := learned(t, tr)
		n := 0
		for name, b := range all {
			if rest, ok := strings.CutPrefix(name, "b/"); ok {
				if n++; b != all["a/"+rest] {
					t.Errorf("%q is not a copy", name)
				}
			}
		}
		if n != 6 {
			t.Errorf("%d copies, want weight, bias, scale, shift, mean and variance", n)
		}
	})
}
