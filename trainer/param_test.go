package trainer_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
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
		if got, want := evaluate(t, b, ds), evaluate(t, a, ds); got != want {
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
