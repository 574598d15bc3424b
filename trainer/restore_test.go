package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// middle returns the state of a run over ds that is cut after n steps, in the body.
func middle(t *testing.T, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset, n int) (s *saved) {
	t.Helper()
	opt.Checkpoint = true
	tr := made(t, model, opt)
	stepsOf(t, tr, ds, n, func() { s = save(t, tr) })
	return s
}

// Every mistake of a model is named in one error, with both shapes, and nothing is changed.
func TestAStateOfAnotherModelIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 24, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}}
		s := middle(t, small, opt, ds, 2)
		other := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			h := net.Dense(net.Dense(x, "hidden", 9, layers.ReLU), "more", 8, layers.ReLU)
			return net.Classifier(x, net.Dense(h, "head", 3, nil))
		}
		tr := made(t, other, opt)
		fit(t, tr, ds)
		before, updates := learned(t, tr), tr.Stats().Updates
		for _, o := range []trainer.RestoreOptions{{}, {ParametersOnly: true}} {
			_, err := tr.Restore(t.Context(), s, o)
			var e *trainer.RestoreError
			if !errors.As(err, &e) || !errors.Is(err, trainer.ErrModel) {
				t.Fatalf("got %v, want a RestoreError", err)
			}
			for _, want := range []string{`"hidden/w" is float32 (4, 8) in the state and float32 (4, 9) in the trainer`, `"hidden/b" is float32 (8) in the state`,
				`the state has no "more/w" float32 (9, 8)`, `the state has no "head/w"`, `the trainer has no "out/w" float32 (8, 3)`, `the trainer has no "out/b"`} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %s", err, want)
				}
			}
			if state := slices.ContainsFunc(e.Missing, func(x trainer.NamedSpec) bool { return x.Name == "more/w/m" }); state == o.ParametersOnly {
				t.Errorf("%+v: missing %v", o, e.Missing)
			}
		}
		if d := differing(before, learned(t, tr)); len(d) > 0 || tr.Stats().Updates != updates || tr.Position() != (trainer.Position{Epoch: 1}) {
			t.Errorf("%q have changed, %d updates, position %+v", d, tr.Stats().Updates, tr.Position())
		}
	})
}

// brokenSource fails after some tensors.
type brokenSource struct {
	*saved
	left int
	err  error
}

func (b *brokenSource) Read(name string, dst []byte) error {
	if b.left--; b.left < 0 {
		return b.err
	}
	for i := range dst { // what must not reach the trainer
		dst[i] = 0x55
	}
	return nil
}

func TestASourceThatFailsChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 24, 4, 3)
		for _, checkpoint := range []bool{false, true} {
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}}
			s := middle(t, small, opt, ds, 2)
			opt.Checkpoint = checkpoint
			tr := made(t, small, opt)
			fit(t, tr, ds)
			before := learned(t, tr)
			broken := errors.New("broken")
			for left := range len(s.specs) {
				if _, err := tr.Restore(t.Context(), &brokenSource{s, left, broken}, trainer.RestoreOptions{}); !errors.Is(err, broken) {
					t.Errorf("got %v, want the error of the source", err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := tr.Restore(ctx, s, trainer.RestoreOptions{}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the error of the context", err)
			}
			if d := differing(before, learned(t, tr)); len(d) > 0 || tr.Position() != (trainer.Position{Epoch: 1}) {
				t.Errorf("%q have changed, position %+v", d, tr.Position())
			}
			fit(t, tr, ds)
		}
	})
}

// A state that was captured on one device is the same on another, and goes on there.
func TestAStateMovesBetweenDevices(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	opt := trainer.Options{Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Average: optim.Average{Decay: 0.9}, Accumulate: 2, Checkpoint: true}
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, d := range targets {
			from, to := opt, opt
			from.Device, to.Device = d.open(t, 0), dev
			s := middle(t, normed, from, ds, 7)
			tr := made(t, normed, to)
			restore(t, tr, s)
			back := save(t, tr)
			if d := differing(stringsOf(s.tensors), stringsOf(back.tensors)); len(d) > 0 || len(s.tensors) != len(back.tensors) {
				t.Errorf("from %s: %q differ", from.Device.Name(), d)
			}
			if at := infoOf(t, back).Position; at != (trainer.Position{Epoch: 1, Step: 2}) || tr.Position() != at {
				t.Errorf("position %+v and %+v", at, tr.Position())
			}
			fit(t, tr, ds)
		}
	})
}

// What would break the rest of the epoch is refused until it is done.
func TestTheRestOfAnEpochIsKeptTogether(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Accumulate: 2, Fields: ds.Fields(), Frozen: []string{"hidden"}, Unfreeze: [][]string{{"hidden"}}, Checkpoint: true}
		s := middle(t, small, opt, ds, 3)
		tr := made(t, small, opt)
		restore(t, tr, s)
		if err := tr.Unfreeze(t.Context()); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("Unfreeze: got %v, want ErrBusy", err)
		}
		if _, err := tr.Step(t.Context(), rowsOf(t, ds, 0, 8)); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("Step: got %v, want ErrBusy", err)
		}
		if _, err := tr.Fit(t.Context(), samples(t, 48, 4, 3)); !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), "step 4 of epoch 0 is next, of 40 samples") {
			t.Errorf("other data: got %v, want ErrData", err)
		}
		evaluate(t, tr, samples(t, 48, 4, 3))
		if res := fit(t, tr, ds); res.Steps != 5 || res.Epoch != 0 || res.Samples != 40 {
			t.Errorf("got %+v", res)
		}
		if err := tr.Unfreeze(t.Context()); err != nil {
			t.Error(err)
		}
		for s, err := range tr.Steps(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.Restore(t.Context(), new(saved), trainer.RestoreOptions{}); !errors.Is(err, trainer.ErrBusy) {
				t.Errorf("in the body: got %v, want ErrBusy", err)
			}
			if s.Step == 2 {
				break
			}
		}
		r, err := tr.Restore(t.Context(), s, trainer.RestoreOptions{NextEpoch: true})
		if err != nil || r.Position != (trainer.Position{Epoch: 1}) {
			t.Fatalf("next epoch: %+v, %v", r, err)
		}
		if res := fit(t, tr, samples(t, 48, 4, 3)); res.Epoch != 1 || res.Steps != 6 {
			t.Errorf("got %+v", res)
		}
	})
}

// The stage of Unfreeze is part of the state, forwards and backwards.
func TestAStageOfUnfreezeIsRestored(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3)
		m := mix{net: "small", model: small, data: ds}
		m.opt = trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Frozen: []string{"hidden"}, Unfreeze: [][]string{{"hidden"}}, Checkpoint: true, Optimizer: optim.Adam{}}
		tr := made(t, small, m.opt)
		fit(t, tr, ds)
		early := save(t, tr)
		if err := tr.Unfreeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		var late *saved
		stepsOf(t, tr, ds, 2, func() { late = save(t, tr) })
		restore(t, tr, late)
		want := m.endOf(t, tr, 4)
		second := made(t, small, m.opt)
		restore(t, second, late)
		if d := want.differs(t, m.endOf(t, second, 4)); len(d) > 0 {
			t.Errorf("unfrozen: %q differ", d)
		}
		restore(t, second, early)
		if got, want := second.Stats().Programs, made(t, small, m.opt).Stats().Programs; got != want {
			t.Errorf("%d programs, those of another stage included, want %d", got, want)
		}
		hidden := learned(t, second)["hidden/w"]
		fit(t, second, ds)
		if now := learned(t, second)["hidden/w"]; now != hidden {
			t.Error("a frozen layer was trained")
		}
		if err := second.Unfreeze(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// changedInfo is a state with other numbers.
type changedInfo struct {
	*saved
	info trainer.Info
}

func (c *changedInfo) Info() (trainer.Info, error) { return c.info, nil }

// A window that has lost its update to a step that is not finite stays so after a restore.
func TestALostWindowStaysLostAfterARestore(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := poisonedAt(t, 36, 13)
		m := mix{net: "small", model: small, data: ds}
		m.opt = trainer.Options{Device: dev, Batch: 4, Accumulate: 3, Fields: ds.Fields(), Sequential: true, Optimizer: optim.Adam{}, SkipNonFinite: 1, Checkpoint: true}
		want := m.endOf(t, made(t, small, m.opt), 2)
		if want.results == nil || !strings.Contains(want.results[1], "NonFinite:1") {
			t.Fatalf("results %q", want.results)
		}
		for at := 3; at < 8; at++ {
			tr := made(t, small, m.opt)
			restore(t, tr, middle(t, small, m.opt, ds, at))
			if d := want.differs(t, m.endOf(t, tr, 2)); len(d) > 0 {
				t.Errorf("cut at %d: %q differ", at, d)
			}
		}
	})
}

// Numbers that no trainer has are refused, and change nothing.
func TestDamagedNumbersAreRefused(t *testing.T) {
	dev := openCPU(t)
	ds := samples(t, 26, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 4, Accumulate: 3, Fields: ds.Fields(), Checkpoint: true}
	s := middle(t, rivals, opt, ds, 5)
	tr := made(t, rivals, opt)
	for i, change := range []func(i *trainer.Info){
		func(i *trainer.Info) { i.Version = 2 },
		func(i *trainer.Info) { i.Epochs = -1 },
		func(i *trainer.Info) { i.Steps = -1 },
		func(i *trainer.Info) { i.RateFactor = 0 },
		func(i *trainer.Info) { i.RateFactor = math.NaN() },
		func(i *trainer.Info) { i.Stage = -1 },
		func(i *trainer.Info) { i.Objectives[0].Updates = -1 },
		func(i *trainer.Info) { i.Objectives[1].NonFinite = -1 },
		func(i *trainer.Info) { i.LossScale.Scale = -3 },
		func(i *trainer.Info) { i.Position.Step = -1 },
		func(i *trainer.Info) { i.Position.Step = i.Epoch.Steps },
		func(i *trainer.Info) { i.Position.Epoch = 4 },
		func(i *trainer.Info) { i.Position.Objective = "c" },
		func(i *trainer.Info) { i.Epoch.Sums = i.Epoch.Sums[:1] },
		func(i *trainer.Info) { i.Epoch.UpdatesSince = nil },
		func(i *trainer.Info) { i.Epoch.Samples = -1 },
		func(i *trainer.Info) { i.Epoch = nil },
		func(i *trainer.Info) { i.Windows = []trainer.WindowInfo{{Objective: "a", Steps: 3}} },
		func(i *trainer.Info) { i.Windows = []trainer.WindowInfo{{Objective: "c", Steps: 1}} },
	} {
		info := infoOf(t, s)
		change(&info)
		if _, err := tr.Restore(t.Context(), &changedInfo{s, info}, trainer.RestoreOptions{}); !errors.Is(err, trainer.ErrData) {
			t.Errorf("change %d: got %v, want ErrData", i, err)
		}
	}
	info := infoOf(t, s)
	info.Objectives = info.Objectives[:1]
	if _, err := tr.Restore(t.Context(), &changedInfo{s, info}, trainer.RestoreOptions{}); !errors.Is(err, trainer.ErrModel) {
		t.Errorf("another objective: got %v, want ErrModel", err)
	}
	if r, err := tr.Restore(t.Context(), &changedInfo{s, trainer.Info{Version: 1}}, trainer.RestoreOptions{ParametersOnly: true}); err != nil || len(r.Differences) > 0 {
		t.Errorf("parameters only: %+v, %v", r, err)
	}
	info.Stage, info.Objectives = 1, infoOf(t, s).Objectives
	if _, err := tr.Restore(t.Context(), &changedInfo{s, info}, trainer.RestoreOptions{}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("another stage: got %v, want ErrOption", err)
	}
	if tr.Position() != (trainer.Position{}) {
		t.Errorf("position %+v", tr.Position())
	}
	restore(t, tr, s)
}

func TestNumbersOfAStateSurviveJSON(t *testing.T) {
	for _, x := range []float64{0, math.Copysign(0, -1), 0.1, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN()} {
		b, err := json.Marshal(trainer.Number(x))
		if err != nil {
			t.Fatal(err)
		}
		var got trainer.Number
		if err := json.Unmarshal(b, &got); err != nil || fmt.Sprint(float64(got)) != fmt.Sprint(x) || math.Signbit(float64(got)) != math.Signbit(x) {
			t.Errorf("%v: %s, %v, %v", x, b, got, err)
		}
	}
	var n trainer.Number
	for _, bad := range []string{`"x"`, `{}`, ``} {
		if err := json.Unmarshal([]byte(bad), &n); err == nil {
			t.Errorf("%s is a number", bad)
		}
	}
}
