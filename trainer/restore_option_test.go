package trainer_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A restore with other options says what differs and what that does, and goes on or refuses.
func TestARestoreWithOtherOptionsSaysWhatDiffers(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	base := trainer.Options{Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Average: optim.Average{Decay: 0.9}}
	next, same := trainer.Position{Epoch: 2}, trainer.Position{Epoch: 1, Step: 3}
	for _, c := range []struct {
		name   string
		change func(o *trainer.Options)
		at     trainer.Position
		differ []string // names of differences, but for that of the plan
		effect string
	}{
		{"nothing", func(*trainer.Options) {}, same, nil, ""},
		{"workers", func(o *trainer.Options) { o.Workers = 3 }, same, nil, ""},
		{"batch", func(o *trainer.Options) { o.Batch = 10 }, next, []string{"batch"}, "in epoch 2; the rest of epoch 1 is left out"},
		{"accumulate", func(o *trainer.Options) { o.Accumulate = 2 }, next, []string{"accumulate"}, "left out"},
		{"tail", func(o *trainer.Options) { o.Tail = dataloader.DropTail }, next, []string{"tail"}, "left out"},
		{"order", func(o *trainer.Options) { o.Sequential = true }, next, []string{"order of samples"}, "left out"},
		{"seed", func(o *trainer.Options) { o.Seed = 9 }, next, []string{"seed"}, "left out"},
		{"rate", func(o *trainer.Options) { o.Optimizer = optim.Adam{Rate: 0.1} }, same, []string{"options of the optimizer"}, "goes on"},
		{"schedule", func(o *trainer.Options) { o.Schedule = optim.Cosine{Steps: 9} }, same, []string{"schedule"}, "goes on"},
		{"clip", func(o *trainer.Options) { o.Clip.Norm = 1 }, same, []string{"clip"}, "goes on"},
		{"precision", func(o *trainer.Options) { o.Precision = arena.BFloat16 }, same, []string{"precision"}, "goes on"},
		{"scaled", func(o *trainer.Options) { o.LossScale.Mode = optim.ScaleAlways }, same, []string{"loss scaling", "scale of the loss"}, ""},
		{"averages", func(o *trainer.Options) { o.Average = optim.Average{} }, same, []string{"average", "averages"}, ""},
		{"skip", func(o *trainer.Options) { o.SkipNonFinite = 2 }, same, []string{"skip steps that are not finite"}, "goes on"},
		{"sgd", func(o *trainer.Options) { o.Optimizer = optim.SGD{} }, same, []string{"optimizer"}, "refused"},
		{"adamw", func(o *trainer.Options) { o.Optimizer = optim.AdamW{} }, same, []string{"optimizer"}, "refused"},
		{"adam8", func(o *trainer.Options) { o.Optimizer = optim.Adam{Storage: optim.Block8} }, same, []string{"optimizer"}, "refused"},
		{"frozen", func(o *trainer.Options) { o.Frozen = []string{"hidden"} }, same, nil, "refused by tensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				opt := base
				opt.Device = dev
				s := middle(t, small, opt, ds, 8)
				c.change(&opt)
				tr := made(t, small, opt)
				r, err := tr.Restore(t.Context(), s, trainer.RestoreOptions{})
				var e *trainer.RestoreError
				switch {
				case c.effect == "refused":
					if !errors.As(err, &e) || !errors.Is(err, trainer.ErrOption) || errors.Is(err, trainer.ErrModel) || len(e.Options) != 1 || e.Options[0].Name != c.differ[0] {
						t.Fatalf("got %v, want an error about %s", err, c.differ)
					}
					if r, err = tr.Restore(t.Context(), s, trainer.RestoreOptions{ParametersOnly: true}); err != nil || r.Position != (trainer.Position{}) {
						t.Fatalf("parameters only: %+v, %v", r, err)
					}
					for name, b := range learned(t, tr) {
						if b != string(s.tensors[name]) {
							t.Errorf("%s is not the one that was saved", name)
						}
					}
					fit(t, tr, ds)
					return
				case c.effect == "refused by tensors":
					if !errors.As(err, &e) || !errors.Is(err, trainer.ErrModel) || len(e.Extra) == 0 {
						t.Fatalf("got %v", err)
					}
					return
				case err != nil:
					t.Fatal(err)
				}
				var names []string
				for _, d := range r.Differences {
					if d.Name != "memory plan" {
						names = append(names, d.Name)
					}
				}
				if !slices.Equal(names, c.differ) || r.Position != c.at || tr.Position() != c.at {
					t.Errorf("differences %v, position %+v and %+v, want %v and %+v", r.Differences, r.Position, tr.Position(), c.differ, c.at)
				}
				if len(r.Differences) > 0 && !strings.Contains(r.Differences[0].String(), c.effect) {
					t.Errorf("%v lacks %q", r.Differences[0], c.effect)
				}
				res := fit(t, tr, ds)
				if res.Epoch != c.at.Epoch || tr.Position() != (trainer.Position{Epoch: c.at.Epoch + 1}) {
					t.Errorf("epoch %d, then %+v", res.Epoch, tr.Position())
				}
			})
		})
	}
}

// Another order and a lower rate hold from the restored step on, and are part of the state then.
func TestAnotherOrderAndALowerRateArePartOfTheState(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		m := mix{net: "small", model: small, data: ds}
		m.opt = trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Checkpoint: true, Optimizer: optim.SGD{Rate: 0.5}, Schedule: optim.Step{Every: 4, Factor: 0.5},
			Groups: []trainer.Group{{Match: []string{"out/b"}, RateFactor: 0.1}}}
		s := middle(t, small, m.opt, ds, 3)
		plain, lowered, reordered := made(t, small, m.opt), made(t, small, m.opt), made(t, small, m.opt)
		restore(t, plain, s)
		for tr, o := range map[*trainer.Trainer]trainer.RestoreOptions{lowered: {RateFactor: 0.25}, reordered: {Order: 7}} {
			if _, err := tr.Restore(t.Context(), s, o); err != nil {
				t.Fatal(err)
			}
		}
		var states []*saved
		all := make(map[*trainer.Trainer][]trainer.Step)
		for _, tr := range []*trainer.Trainer{plain, lowered, reordered} {
			all[tr] = stepsOf(t, tr, ds, 9, func() { states = append(states, save(t, tr)) })
		}
		for i, x := range all[plain] {
			if got := all[lowered][i].Rate; got != 0.25*x.Rate {
				t.Errorf("step %d: rate %v, want a quarter of %v", i, got, x.Rate)
			}
			if all[reordered][i].Rate != x.Rate {
				t.Errorf("step %d: the rate of another order is %v", i, all[reordered][i].Rate)
			}
		}
		if a, b := all[plain][0], all[lowered][0]; a.Loss != b.Loss {
			t.Errorf("the first step has loss %v and %v at a lower rate", a.Loss, b.Loss)
		}
		if a, b := all[plain][0], all[reordered][0]; a.Loss == b.Loss {
			t.Error("another order has the same samples")
		}
		// The same rates from the optimizer learn the same, in groups too: powers of two change no
		// bit.
		other := m.opt
		other.Optimizer = optim.SGD{Rate: 0.125}
		direct := made(t, small, other)
		restore(t, direct, s)
		stepsOf(t, direct, ds, 9, nil)
		if d := differing(learned(t, direct), learned(t, lowered)); len(d) > 0 {
			t.Errorf("%q differ from those of a lower rate of the optimizer", d)
		}
		for i := range states {
			second := made(t, small, m.opt)
			restore(t, second, states[i])
			got := m.endOf(t, second, 3)
			third := made(t, small, m.opt)
			restore(t, third, states[i])
			restore(t, third, save(t, third)) // a state of a restored trainer is the state
			if d := got.differs(t, m.endOf(t, third, 3)); len(d) > 0 {
				t.Errorf("run %d: %q differ", i, d)
			}
		}
		if r, err := lowered.Restore(t.Context(), states[1], trainer.RestoreOptions{RateFactor: 0.5}); err != nil {
			t.Error(r, err)
		} else if f := infoOf(t, save(t, lowered)).RateFactor; f != 0.125 {
			t.Errorf("factor %v, want 0.25·0.5", f)
		}
		for _, f := range []float64{-1, 1.5, math.NaN(), math.Inf(1)} {
			if _, err := plain.Restore(t.Context(), s, trainer.RestoreOptions{RateFactor: f}); !errors.Is(err, trainer.ErrOption) {
				t.Errorf("factor %v: got %v, want ErrOption", f, err)
			}
		}
	})
}

// A schedule with a state, also within another one, has the same rates after a restore.
func TestASchedulesStateIsRestored(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		var plateaus []*loop.Plateau
		open := func() *trainer.Trainer {
			p, err := loop.NewPlateau(loop.Drop{Factor: 0.5, Patience: 1})
			if err != nil {
				t.Fatal(err)
			}
			plateaus = append(plateaus, p)
			return made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Checkpoint: true, Schedule: optim.Warmup{Steps: 2, Then: p}})
		}
		rates := func(tr *trainer.Trainer, p *loop.Plateau, from, to int, cut func()) (all []float64) {
			for at := from; at < to; {
				for s, err := range tr.Steps(t.Context(), ds) {
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, s.Rate)
					p.Add(1) // no result improves
					if at++; at == to {
						if cut != nil {
							cut()
						}
						break
					}
				}
			}
			return all
		}
		straight := open()
		want := rates(straight, plateaus[0], 0, 14, nil)
		if want[13] >= want[4] {
			t.Fatalf("the rates do not fall: %v", want)
		}
		var s *saved
		first := open()
		got := rates(first, plateaus[1], 0, 7, func() { s = save(t, first) })
		second := open()
		restore(t, second, s)
		if got = append(got, rates(second, plateaus[2], 7, 14, nil)...); !slices.Equal(got, want) {
			t.Errorf("rates %v, want %v", got, want)
		}
		// A damaged state of a schedule changes nothing.
		info := infoOf(t, s)
		info.Schedules[0].State = json.RawMessage(`{"factor":-1}`)
		before, factor := learned(t, straight), plateaus[0].Factor()
		if _, err := straight.Restore(t.Context(), &changedInfo{s, info}, trainer.RestoreOptions{}); !errors.Is(err, optim.ErrOption) {
			t.Errorf("got %v, want ErrOption", err)
		}
		if d := differing(before, learned(t, straight)); len(d) > 0 || plateaus[0].Factor() != factor {
			t.Errorf("%q have changed, factor %v", d, plateaus[0].Factor())
		}
	})
}

// One damaged state of a schedule leaves those of all others as they are.
func TestStatesOfSchedulesAreSetTogether(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	var all [2]*loop.Plateau
	opt := trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields(), Checkpoint: true}
	for i := range all {
		var err error
		if all[i], err = loop.NewPlateau(loop.Drop{}); err != nil {
			t.Fatal(err)
		}
		opt.Objectives = append(opt.Objectives, trainer.Objective{Name: []string{"a", "b"}[i], Schedule: all[i]})
	}
	tr := made(t, rivals, opt)
	all[0].SetFactor(0.5)
	s := save(t, tr)
	all[0].SetFactor(0.25)
	info := infoOf(t, s)
	info.Schedules[1].State = json.RawMessage(`{}`)
	if _, err := tr.Restore(t.Context(), &changedInfo{s, info}, trainer.RestoreOptions{}); !errors.Is(err, optim.ErrOption) || all[0].Factor() != 0.25 {
		t.Errorf("got %v, factor %v, want ErrOption and 0.25", err, all[0].Factor())
	}
	if restore(t, tr, s); all[0].Factor() != 0.5 || all[1].Factor() != 1 {
		t.Errorf("factors %v and %v, want 0.5 and 1", all[0].Factor(), all[1].Factor())
	}
}

// maskedRows is small with a constant that has a row for each of the batch.
func maskedRows(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	mask := make([]float32, 4*batch)
	for i := range mask {
		mask[i] = float32(i%3) / 2
	}
	h := net.Dense(net.Mul(x, net.Constant(mask, "mask", batch, 4), "masked"), "hidden", 8, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

// Constants of the graph may depend on the batch: those of the trainer stay.
func TestConstantsOfAnotherBatchStay(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Tail: dataloader.DropTail, AllowMerged: true}
		s := middle(t, maskedRows, opt, ds, 3)
		same := made(t, maskedRows, opt)
		if r := restore(t, same, s); slices.ContainsFunc(r.Differences, func(d trainer.Difference) bool { return d.Name != "memory plan" }) {
			t.Errorf("differences %v, want at most the plan's", r.Differences)
		}
		opt.Batch = 5
		tr := made(t, maskedRows, opt)
		before := learned(t, tr)
		r := restore(t, tr, s)
		if !slices.ContainsFunc(r.Differences, func(d trainer.Difference) bool { return d.Name == "constants of the graph" }) {
			t.Errorf("differences %v lack the constants", r.Differences)
		}
		for name, b := range learned(t, tr) {
			want := string(s.tensors[name])
			if strings.HasPrefix(name, "constant ") {
				want = before[name]
			}
			if b != want {
				t.Errorf("%s is not as expected", name)
			}
		}
		fit(t, tr, ds)
	})
}
