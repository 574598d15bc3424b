package trainer_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestParametersAreReadAndWrittenWhereTheyLie(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Frozen: []string{"hidden"}}
		a, b := made(t, small, opt), made(t, small, opt)
		fit(t, a, ds)
		from, err := a.Params()
		if err != nil {
			t.Fatal(err)
		}
		to, err := b.Params()
		if err != nil {
			t.Fatal(err)
		}
		var names, frozen []string
		for i, p := range from {
			names = append(names, p.Name)
			if p.Frozen {
				frozen = append(frozen, p.Name)
			}
			w := make([]byte, p.Spec.Bytes())
			if err := p.Read(w); err != nil {
				t.Fatal(err)
			}
			if err := to[i].Write(w); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(names, weights) || !slices.Equal(frozen, []string{"hidden/w", "hidden/b"}) {
			t.Errorf("parameters %q, frozen %q", names, frozen)
		}
		if got, want := evaluate(t, b, ds), evaluate(t, a, ds); !reflect.DeepEqual(got, want) {
			t.Errorf("with the same parameters: %+v and %+v", got, want)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Params(); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := from[0].Read(make([]byte, from[0].Spec.Bytes())); err == nil {
			t.Error("a handle reads after Close")
		}
	})
}

// A weight of more bytes than the stage goes through it in parts: reading and writing all of them at a capacity of exactly the plan makes nothing on the
// device and nothing pinned, and what comes back is what went in.
func TestParametersGoThroughThePlannedStage(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		model, ds := classifier(300, 400, 3), samples(t, 16, 300, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Seed: 1}
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Memory = plan.Total
		a := made(t, model, opt)
		opt.Seed = 2
		b := made(t, model, opt)
		fit(t, a, ds)
		fit(t, b, ds)
		before := counted(t, dev)
		want := learned(t, a)
		ps, err := b.Params()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if err := p.Write([]byte(want[p.Name])); err != nil {
				t.Fatal(err)
			}
		}
		if d := differing(want, learned(t, b)); d != nil {
			t.Errorf("%q differ", d)
		}
		after := counted(t, dev)
		if after.allocs != before.allocs || after.pins != before.pins || after.device != before.device || after.pinned != before.pinned {
			t.Errorf("%+v, %+v before", after, before)
		}
	})
}

// Weights that a step may be writing are not read; weights that nobody writes are.
func TestParametersAreNotReadDuringAPass(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		var ps []trainer.Param
		var during []error
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Progress: func(trainer.Progress) {
			w := make([]byte, ps[0].Spec.Bytes())
			during = append(during, ps[0].Read(w), ps[0].Write(w))
		}}
		tr := made(t, small, opt)
		var err error
		if ps, err = tr.Params(); err != nil {
			t.Fatal(err)
		}
		fit(t, tr, ds)
		for _, err := range during {
			if !errors.Is(err, trainer.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		}
		if len(during) != 8 {
			t.Errorf("tried %d times", len(during))
		}
		if err := ps[0].Read(make([]byte, ps[0].Spec.Bytes())); err != nil {
			t.Error(err)
		}
	})
}

// Without a parameter to train an epoch is no update, whatever the guard and the windows; what the batches' statistics say is learned all the same.
func TestFrozenParametersAreNotUpdated(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		probe := made(t, normed, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		ps, err := probe.Params()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, p := range ps {
			if !p.Statistic {
				all = append(all, p.Name)
			}
		}
		for _, opt := range []trainer.Options{{}, {Guard: trainer.GuardEach}, {Accumulate: 2}, {LossScale: optim.Scaling{Mode: optim.ScaleAlways}}} {
			opt.Device, opt.Batch, opt.Fields = dev, 8, ds.Fields()
			for _, opt.Frozen = range [][]string{all[1:], all} {
				tr := made(t, normed, opt)
				before := learned(t, tr)
				fit(t, tr, ds)
				want := int64(4 / max(1, opt.Accumulate))
				changed := differing(before, learned(t, tr))
				if len(opt.Frozen) == len(all) {
					want = 0
					changed = slices.DeleteFunc(changed, func(name string) bool { return !slices.Contains(all, name) })
				}
				if got := tr.Stats().Updates; got != want || want == 0 && len(changed) > 0 {
					t.Errorf("guard %v, windows of %d, %d of %d frozen: %d updates, which changed %q; want %d", opt.Guard, opt.Accumulate, len(opt.Frozen), len(all), got, changed, want)
				}
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
