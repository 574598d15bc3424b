package trainer_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// poisonedAt is samples with NaN in input 0 of some of them.
func poisonedAt(t testing.TB, n int, at ...int) *dataloader.Slices {
	t.Helper()
	x, y := make([]float32, n*4), make([]uint8, n)
	for i := range x {
		x[i], y[i/4] = float32(i*7%11)/5-1, uint8(i/4%3)
	}
	for _, i := range at {
		x[4*i] = float32(math.NaN())
	}
	return columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("y", y))
}

// Training skips steps that are not finite: parameters, statistics, state and averages are those of
// a run without these batches, but for the number of the step.
func TestAStepThatIsNotFiniteIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := poisonedAt(t, 40, 9, 25) // batches 2 and 6
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Sequential: true, Optimizer: optim.Adam{}, SkipNonFinite: 1,
			Checkpoint: true, Schedule: optim.Warmup{Steps: 20}, Average: optim.Average{Decay: 0.5}, EvalBatch: 4}
		for _, model := range []trainer.ModelFunc{small, normed} {
			tr := made(t, model, opt)
			before, skipped := save(t, tr), 0
			for s, err := range tr.Steps(t.Context(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				now := save(t, tr)
				bad := s.Step == 3 || s.Step == 7
				if s.NonFinite != bad || s.Skipped != bad || s.Updated == bad || finite(s.Loss) == bad {
					t.Errorf("step %+v, want skipped %v", s, bad)
				}
				if same := len(differing(stringsOf(before.tensors), stringsOf(now.tensors))) == 0; same != bad {
					t.Errorf("step %d: the state is the same: %v, want %v", s.Step, same, bad)
				}
				if before = now; bad {
					skipped++
				}
			}
			if got := tr.Stats().Updates; skipped != 2 || got != 8 {
				t.Errorf("%d steps skipped, %d updates", skipped, got)
			}
			fitted := made(t, model, opt)
			res := fit(t, fitted, ds)
			if res.NonFinite != 2 || res.Skipped != 2 || res.Steps != 10 || res.Weight != 32 || !finite(res.Loss) || res.Losses[0].NonFinite != 2 {
				t.Errorf("got %+v, want 2 steps skipped", res)
			}
			if d := differing(learned(t, tr), learned(t, fitted)); len(d) > 0 {
				t.Errorf("%q differ between Fit and Steps", d)
			}
		}
		// The same updates as those of the good batches alone.
		tr, rest := made(t, small, opt), made(t, small, opt)
		fit(t, tr, ds)
		fit(t, rest, without(t, ds, 2, 6))
		if d := differing(learned(t, tr), learned(t, rest)); len(d) > 0 {
			t.Errorf("%q differ from those of the other batches", d)
		}
	})
}

// without returns ds without some batches of 4.
func without(t testing.TB, ds *dataloader.Slices, batches ...int) *dataloader.Slices {
	t.Helper()
	n := ds.Len()
	clean := poisonedAt(t, n)
	var x []float32
	var y []uint8
	row, label := make([]byte, 16), make([]byte, 1)
	for i := range n {
		if slices.Contains(batches, i/4) {
			continue
		}
		if err := clean.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{row, label}); err != nil {
			t.Fatal(err)
		}
		for _, v := range decoded(row) {
			x = append(x, float32(v))
		}
		y = append(y, label[0])
	}
	return columns(t, len(y), dataloader.Column("x", x, 4), dataloader.Column("y", y))
}

// A window with a step that is not finite has no update, wherever the step is; the next window
// does.
func TestAWindowWithAStepThatIsNotFiniteIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for bad := range 3 {
			for _, scale := range []optim.ScalingMode{optim.ScaleNever, optim.ScaleAlways} {
				ds := poisonedAt(t, 36, 4*(3+bad)) // a batch of the second of three windows
				opt := trainer.Options{Device: dev, Batch: 4, Accumulate: 3, Fields: ds.Fields(), Sequential: true, Optimizer: optim.Adam{},
					SkipNonFinite: 1, Checkpoint: true, LossScale: optim.Scaling{Mode: scale}}
				tr := made(t, small, opt)
				var got []string
				last := learned(t, tr)
				for s, err := range tr.Steps(t.Context(), ds) {
					if err != nil {
						t.Fatal(err)
					}
					mark := "."
					if now := learned(t, tr); len(differing(last, now)) > 0 {
						mark, last = "U", now
					}
					if s.Skipped {
						mark += "s"
					}
					if s.NonFinite {
						mark += "n"
					}
					got = append(got, mark)
				}
				want := []string{".", ".", "U", ".", ".", ".s", ".", ".", "U"}
				want[3+bad] += "n"
				if !slices.Equal(got, want) {
					t.Errorf("bad step %d, scaling %d: %q, want %q", bad, scale, got, want)
				}
				if l := tr.LossScale(); l.Skipped != 0 || scale == optim.ScaleAlways && l.Good != 2 {
					t.Errorf("the scale of the loss counts %+v, want the two updates", l)
				}
				if n := tr.Stats().Updates; n != 2 {
					t.Errorf("%d updates, want 2", n)
				}
			}
		}
	})
}

// Windows without an update do not end a row of steps that are not finite.
func TestSkippedStepsOfWindowsInARowAreCounted(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := poisonedAt(t, 36, 0, 12, 24) // the first step of each window
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Accumulate: 3, Fields: ds.Fields(), Sequential: true, SkipNonFinite: 2})
		res, err := tr.Fit(t.Context(), ds)
		if !errors.Is(err, trainer.ErrNonFinite) || res.NonFinite != 2 || res.Skipped != 2 {
			t.Errorf("got %+v, %v, want an error after 2 steps", res, err)
		}
	})
}

// Only the loss overflows, and no gradient: the window has no update all the same.
func TestAWindowWhoseLossIsNotFiniteIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1e308, 1, 1, 1)
		tr := made(t, scalar(10), trainer.Options{Device: dev, Batch: 1, Accumulate: 2, Fields: ds.Fields(), Sequential: true, SkipNonFinite: 1, Optimizer: optim.SGD{Rate: 0.5}})
		if res := fit(t, tr, ds); res.NonFinite != 1 || res.Skipped != 1 || weight(t, tr) != 9.5 {
			t.Errorf("got %+v, w = %v, want 10 - 0.5", res, weight(t, tr))
		}
	})
}

// More steps in a row than are allowed are an error that says so, and the count begins anew after a
// good step.
func TestTooManySkippedStepsInARowAreAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		opt := trainer.Options{Device: dev, Batch: 4, Sequential: true, SkipNonFinite: 2, Fields: poisonedAt(t, 4).Fields()}
		tr := made(t, small, opt)
		if res := fit(t, tr, poisonedAt(t, 40, 0, 4, 12, 16, 24, 28, 36)); res.NonFinite != 7 {
			t.Errorf("%d steps skipped, want 7", res.NonFinite)
		}
		// The last step of the epoch was skipped: one more may be.
		before := learned(t, tr)
		res, err := tr.Fit(t.Context(), poisonedAt(t, 40, 0, 4))
		var e *trainer.NonFiniteError
		if !errors.As(err, &e) || e.Sample != 4 || !strings.Contains(err.Error(), "has skipped the 2 steps before") || res.NonFinite != 1 {
			t.Errorf("got %v after %+v, want an error about sample 4", err, res)
		}
		if d := differing(before, learned(t, tr)); len(d) > 0 {
			t.Errorf("%q have changed", d)
		}
		if _, err := tr.Evaluate(t.Context(), poisonedAt(t, 40, 0)); !errors.Is(err, trainer.ErrNonFinite) {
			t.Errorf("evaluation: got %v, want ErrNonFinite", err)
		}
	})
}

func TestAStepOfTheCallersBatchIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, SkipNonFinite: 1, Fields: poisonedAt(t, 4).Fields()})
		before := learned(t, tr)
		bad := func(f trainer.Fields) error {
			for i := range f.Float32("x") {
				f.Float32("x")[i] = float32(math.Inf(1))
			}
			clear(f.Uint8("y"))
			return nil
		}
		s, err := tr.Step(t.Context(), trainer.Batch{Rows: 4, Fill: bad})
		if err != nil || !s.NonFinite || !s.Skipped || s.Updated || len(differing(before, learned(t, tr))) > 0 {
			t.Errorf("got %+v, %v", s, err)
		}
		if _, err := tr.Step(t.Context(), trainer.Batch{Rows: 4, Fill: bad}); !errors.Is(err, trainer.ErrNonFinite) {
			t.Errorf("got %v, want ErrNonFinite", err)
		}
	})
}

// The steps in a row before a capture count after a restore.
func TestSkippedStepsInARowAreRestored(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := poisonedAt(t, 24, 4, 8, 12)
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Sequential: true, SkipNonFinite: 2, Checkpoint: true}
		tr := made(t, small, opt)
		restore(t, tr, middle(t, small, opt, ds, 3))
		res, err := tr.Fit(t.Context(), ds)
		if !errors.Is(err, trainer.ErrNonFinite) || res.NonFinite != 2 || res.Steps != 3 {
			t.Errorf("got %+v, %v, want an error at step 3", res, err)
		}
	})
}

// A window of Trainer.Step that has lost its update stays so after a restore.
func TestALostWindowOfStepStaysLostAfterARestore(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1e308, 1) // the loss overflows, and no gradient
		opt := trainer.Options{Device: dev, Batch: 1, Accumulate: 2, Fields: ds.Fields(), SkipNonFinite: 1, Optimizer: optim.SGD{Rate: 0.5}, Checkpoint: true}
		first, second := made(t, scalar(10), opt), made(t, scalar(10), opt)
		if s := step(t, first, rowsOf64(ds, 0)); !s.NonFinite {
			t.Errorf("got %+v", s)
		}
		restore(t, second, save(t, first))
		for _, tr := range []*trainer.Trainer{first, second} {
			if s := step(t, tr, rowsOf64(ds, 1)); !s.Skipped || s.NonFinite || weight(t, tr) != 10 {
				t.Errorf("got %+v, w = %v, want no update", s, weight(t, tr))
			}
		}
	})
}

// rowsOf64 is a batch of one number.
func rowsOf64(ds *dataloader.Slices, i int) trainer.Batch {
	return trainer.Batch{Rows: 1, Fill: func(f trainer.Fields) error {
		return ds.Fetch(context.Background(), dataloader.At{Index: i}, [][]byte{f.Bytes("x")})
	}}
}

func TestBadOptionsOfSkippingAreRefused(t *testing.T) {
	for _, opt := range []trainer.Options{{SkipNonFinite: -1}, {SkipNonFinite: 1, Guard: trainer.GuardEach}} {
		opt.Batch = 4
		if _, err := trainer.Plan(t.Context(), small, opt); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%d, guard %d: got %v, want ErrOption", opt.SkipNonFinite, opt.Guard, err)
		}
	}
}

// Products in float16 overflow in some steps: those that scaling skips are not counted as steps
// that are not finite.
func TestOverflowsOfScaledGradientsAreNotCountedAsNonFinite(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := poisonedAt(t, 40)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, SkipNonFinite: 1, Fields: ds.Fields(), Precision: arena.Float16,
			LossScale: optim.Scaling{Initial: optim.MaxScale}})
		res := fit(t, tr, ds)
		if res.Skipped == 0 || res.NonFinite != 0 || tr.LossScale().Skipped != int64(res.Skipped) {
			t.Errorf("got %+v, %+v", res, tr.LossScale())
		}
	})
}
