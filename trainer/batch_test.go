package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// rowsOf returns rows of a dataset of samples as a batch that the caller makes.
func rowsOf(t testing.TB, ds *dataloader.Slices, from, to int) trainer.Batch {
	return trainer.Batch{Rows: to - from, Fill: func(f trainer.Fields) error {
		x, y := f.Float32("x"), f.Uint8("y")
		if len(x) != 4*f.Rows() || len(y) != f.Rows() || f.Rows() != to-from {
			t.Errorf("%d numbers and %d labels for %d rows", len(x), len(y), f.Rows())
		}
		for i := range f.Rows() {
			row := [][]byte{f.Bytes("x")[16*i : 16*(i+1)], f.Bytes("y")[i : i+1]}
			if err := ds.Fetch(context.Background(), dataloader.At{Index: from + i}, row); err != nil {
				return err
			}
		}
		return nil
	}}
}

// step trains one batch.
func step(t testing.TB, tr *trainer.Trainer, b trainer.Batch) trainer.Step {
	t.Helper()
	s, err := tr.Step(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Step on the rows of each batch, in windows too, has the bits of Fit, and counts steps and updates as Fit does.
func TestStepOnTheRowsOfABatchHasTheBitsOfFit(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, opt := range stepOptions() {
			n := 6*opt.Batch + 5
			if opt.Accumulate > 1 || opt.Tail == dataloader.DropTail {
				n = 6 * opt.Batch
			}
			ds := samples(t, n, 4, 3)
			opt.Device, opt.Seed, opt.Fields, opt.Sequential, opt.GradientNorm = dev, 5, ds.Fields(), true, true
			var reported []trainer.Progress
			opt.Progress = func(p trainer.Progress) { reported = append(reported, p) }
			fitted, own := made(t, small, opt), made(t, small, opt)
			for epoch := range 3 {
				reported = nil
				res := fit(t, fitted, ds)
				fitLog, skipped := reported, 0
				reported = nil
				for i := range res.Steps {
					s := step(t, own, rowsOf(t, ds, i*opt.Batch, min(n, (i+1)*opt.Batch)))
					want := fitLog[i]
					if s.Number != want.StepNumber || s.Loss != want.StepLoss || s.Norm != want.StepNorm && !(math.IsNaN(s.Norm) && math.IsNaN(want.StepNorm)) {
						t.Errorf("%s, epoch %d: %+v, Fit has %+v", name, epoch, s, want)
					}
					if place := max(1, opt.Accumulate); s.Steps != place || s.Step != i%place+1 || s.Samples != min(opt.Batch, n-i*opt.Batch) {
						t.Errorf("%s, step %d: %+v", name, i, s)
					}
					if s.Skipped {
						skipped++
					}
				}
				if len(reported) > 0 {
					t.Errorf("%s: progress is reported of Step: %+v", name, reported)
				}
				if d := differingFrom(t, own, fitted, opt); len(d) > 0 || skipped != res.Skipped {
					t.Errorf("%s, epoch %d: %q differ from those of Fit; %d skipped, %d by Fit", name, epoch, d, skipped, res.Skipped)
				}
			}
			if a, b := own.Stats(), fitted.Stats(); a.Updates != b.Updates || a.Uploaded != b.Uploaded || a.Epochs != 0 {
				t.Errorf("%s: %+v, Fit has %+v", name, a, b)
			}
		}
	})
}

// Step in the body of Steps trains between two of its steps: as the same steps one after another by Step alone.
func TestStepInTheBodyOfStepsTrainsBetweenSteps(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, other := samples(t, 24, 4, 3), samples(t, 16, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Sequential: true, Optimizer: optim.Adam{},
			Schedule: optim.Step{Every: 2, Factor: 0.5}}
		mixed, own := made(t, onlyDropped, opt), made(t, onlyDropped, opt)
		for _, s := range stepwise(t, mixed, ds, func(s trainer.Step) {
			if s.Step < 3 {
				step(t, mixed, rowsOf(t, other, 8*(s.Step-1), 8*s.Step))
			}
		}) {
			got := step(t, own, rowsOf(t, ds, 8*(s.Step-1), 8*s.Step))
			if got.Loss != s.Loss || got.Number != s.Number || got.Rate != s.Rate || s.Number != int64(2*s.Step-1) {
				t.Errorf("%+v by Steps, %+v by Step", s, got)
			}
			if s.Step < 3 {
				step(t, own, rowsOf(t, other, 8*(s.Step-1), 8*s.Step))
			}
		}
		if d := differing(learned(t, mixed), learned(t, own)); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
	})
}

// What would break a window is refused, and the window goes on.
func TestNothingTrainsWithinAWindowOfStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ctx := context.Background()
		ds := samples(t, 16, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 4, Accumulate: 2, Fields: ds.Fields(), Sequential: true, Optimizer: optim.Adam{}}
		tr, want := made(t, small, opt), made(t, small, opt)
		busy := func(what string, err error, say string) {
			t.Helper()
			if !errors.Is(err, trainer.ErrBusy) || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		step(t, tr, rowsOf(t, ds, 0, 4))
		_, err := tr.Fit(ctx, ds)
		busy("Fit in an open window", err, "call Step 1 more times first")
		for _, err := range tr.Steps(ctx, ds) {
			busy("Steps in an open window", err, "call Step 1 more times first")
		}
		if _, err := tr.Step(ctx, rowsOf(t, ds, 4, 7)); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("a short batch in a window: got %v", err)
		}
		failed := errors.New("failed")
		if _, err := tr.Step(ctx, trainer.Batch{Rows: 4, Fill: func(trainer.Fields) error { return failed }}); !errors.Is(err, failed) {
			t.Errorf("got %v, want the error of Fill", err)
		}
		evaluate(t, tr, ds)
		outputs(t, tr, ds)
		step(t, tr, rowsOf(t, ds, 4, 8))
		for s := range tr.Steps(ctx, ds) { // 4 steps, two windows
			if _, err := tr.Step(ctx, rowsOf(t, ds, 0, 4)); s.Step%2 == 1 {
				busy("Step within a window of Steps", err, fmt.Sprintf("until step %d", s.Step+1))
			} else if err != nil {
				t.Errorf("Step between two windows: %v", err)
			} else if s.Step == 2 {
				step(t, tr, rowsOf(t, ds, 4, 8))
			}
		}
		step(t, tr, rowsOf(t, ds, 4, 8)) // the window that was opened after the last step
		epoch := func(from, to int) {
			for i := from; i < to; i += 4 {
				step(t, want, rowsOf(t, ds, i, i+4))
			}
		}
		epoch(0, 8)  // the open window
		epoch(0, 8)  // two steps of Steps
		epoch(0, 8)  // a window in the body
		epoch(8, 16) // two steps of Steps
		epoch(0, 8)
		if d := differing(learned(t, tr), learned(t, want)); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
		// A window that a body leaves open ends the pass.
		n, last := 0, error(nil)
		for s, err := range tr.Steps(ctx, ds) {
			if last = err; err == nil {
				if n++; s.Step == 2 {
					step(t, tr, rowsOf(t, ds, 0, 4))
				}
			}
		}
		if busy("an open window after a body", last, "the next step of Steps"); n != 2 {
			t.Errorf("%d steps, want 2", n)
		}
		step(t, tr, rowsOf(t, ds, 0, 4))
		fit(t, tr, ds)
	})
}

func TestABadBatchIsRefusedAndChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 16, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		before := learned(t, tr)
		fill := func(f func(trainer.Fields)) trainer.Batch {
			return trainer.Batch{Rows: 2, Fill: func(fields trainer.Fields) error {
				f(fields)
				return nil
			}}
		}
		good := func(f trainer.Fields) { clear(f.Float32("x")); clear(f.Uint8("y")) }
		for _, c := range []struct {
			name  string
			batch trainer.Batch
			class error
			want  []string
		}{
			{"no rows and no Fill", trainer.Batch{}, trainer.ErrOption, []string{"batch of 0 rows: must be 1 to Options.Batch, which is 8", "no Fill"}},
			{"too many rows", trainer.Batch{Rows: 9, Fill: rowsOf(t, ds, 0, 9).Fill}, trainer.ErrOption, []string{"batch of 9 rows"}},
			{"other types and names", fill(func(f trainer.Fields) { f.Float64("x"); f.Int64("y"); f.Float32("z"); f.Int32("w") }), trainer.ErrData,
				[]string{`field "x" is stored as float32, not float64`, `field "y" is stored as uint8, not int64`, `no field "z"`, `no field "w"`,
					`field "x" float32 (2, 4) is not written`, `field "y" uint8 (2) is not written`}},
			{"a field that is missing", fill(func(f trainer.Fields) { clear(f.Float32("x")) }), trainer.ErrData, []string{`field "y" uint8 (2) is not written`}},
			{"a panic", fill(func(f trainer.Fields) { good(f); panic("hidden") }), dataloader.ErrPanic, []string{"fill: panic: hidden"}},
			{"a panic because of a type", fill(func(f trainer.Fields) { f.Float64("x")[0] = 1 }), trainer.ErrData, []string{`field "x" is stored as float32`}},
			{"a label", fill(func(f trainer.Fields) { good(f); f.Uint8("y")[1] = 7 }), trainer.ErrLabel,
				[]string{`row 1: field "y" has label 7, the model has classes 0 to 2`}},
			{"a number", fill(func(f trainer.Fields) { good(f); f.Float32("x")[6] = float32(math.Inf(1)) }), trainer.ErrNonFinite,
				[]string{`row 1: field "x" has +Inf at element 2`}},
		} {
			_, err := tr.Step(context.Background(), c.batch)
			if !errors.Is(err, c.class) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.class)
				continue
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %q has no %q", c.name, err, want)
				}
			}
		}
		if d := differing(learned(t, tr), before); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
		if s := step(t, tr, fill(good)); s.Number != 1 || !s.Updated {
			t.Errorf("after errors: %+v", s)
		}
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := tr.Step(canceled, fill(good)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v", err)
		}
		var none context.Context
		if _, err := tr.Step(none, fill(good)); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("no context: got %v", err)
		}
	})
}

// Inside Fill, which has the device, calls that need the device return at once.
func TestCallsInsideFillReturnErrBusy(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ctx := context.Background()
		ds := samples(t, 16, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		rows := rowsOf(t, ds, 0, 8)
		step(t, tr, trainer.Batch{Rows: 8, Fill: func(f trainer.Fields) error {
			_, fitted := tr.Fit(ctx, ds)
			_, evaluated := tr.Evaluate(ctx, ds)
			_, stepped := tr.Step(ctx, rows)
			var predicted error
			for _, predicted = range tr.Predict(ctx, ds) {
			}
			ps, err := tr.Params()
			if err != nil {
				return err
			}
			for name, err := range map[string]error{"Fit": fitted, "Evaluate": evaluated, "Step": stepped, "Predict": predicted,
				"Read": ps[0].Read(make([]byte, ps[0].Spec.Bytes())), "Close": tr.Close()} {
				if !errors.Is(err, trainer.ErrBusy) {
					t.Errorf("%s inside Fill: got %v, want ErrBusy", name, err)
				}
			}
			tr.Plan()
			tr.Stats()
			return rows.Fill(f)
		}})
	})
}

// TestStepAllocatesNothing counts heap objects of Step, of full and short batches.
func TestStepAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if dev.Name() == "emu" {
			t.Skip("needs a device that makes no heap objects of its own")
		}
		ds := samples(t, 16, 4, 3)
		for _, opt := range []trainer.Options{{}, {Accumulate: 2}, {Clip: optim.Clip{Norm: 1}, LossScale: optim.Scaling{Mode: optim.ScaleAlways}}} {
			opt.Device, opt.Batch, opt.Optimizer, opt.Fields = dev, 8, optim.Adam{}, ds.Fields()
			tr := made(t, small, opt)
			for _, rows := range []int{8, 3} {
				if rows < 8 && opt.Accumulate > 1 {
					continue
				}
				b := trainer.Batch{Rows: rows, Fill: func(f trainer.Fields) error {
					clear(f.Float32("x"))
					clear(f.Uint8("y"))
					return nil
				}}
				step(t, tr, b)
				step(t, tr, b)
				defer debug.SetGCPercent(debug.SetGCPercent(-1))
				best := uint64(1 << 62) // the runtime's own goroutines allocate now and then
				var first, last runtime.MemStats
				for range 5 {
					runtime.ReadMemStats(&first)
					for range 10 {
						step(t, tr, b)
					}
					runtime.ReadMemStats(&last)
					best = min(best, last.Mallocs-first.Mallocs)
				}
				if best != 0 {
					t.Errorf("%d rows, accumulate %d: %d heap objects in 10 steps, want 0", rows, opt.Accumulate, best)
				}
			}
		}
	})
}
