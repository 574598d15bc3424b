package checkpoint_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// wait makes every step wait until nothing is being written, so that no checkpoint is put off.
func waiting(f *checkpoint.Folder, steps loop.Steps) loop.Steps {
	return func(yield func(trainer.Step, error) bool) {
		for s, err := range steps {
			_ = f.Wait()
			if !yield(s, err) {
				return
			}
		}
	}
}

func TestCheckpointsAreTakenByStepsAndEpochsAndAtTheEnd(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40) // 5 steps in an epoch
		for _, c := range []struct {
			opt  checkpoint.Options
			want []int64
		}{
			{checkpoint.Options{EverySteps: 4}, []int64{4, 8, 12, 15}},
			{checkpoint.Options{EveryEpochs: 2}, []int64{10, 15}},
			{checkpoint.Options{EveryEpochs: 1, EverySteps: 7}, []int64{5, 7, 10, 14, 15}},
			{checkpoint.Options{}, []int64{15}},
		} {
			c.opt.Keep = -1
			f, tr := opened(t, t.TempDir(), c.opt), made(t, options(dev))
			for _, err := range f.Steps(t.Context(), tr, waiting(f, loop.Until(t.Context(), tr, ds, 3))) {
				if err != nil {
					t.Fatal(err)
				}
			}
			closed(t, f)
			if got := stepsOf(f); !slices.Equal(got, c.want) || f.Stats().Saved != len(c.want) || f.Stats().Last.Step != 15 {
				t.Errorf("%+v: after steps %v, want %v; %+v", c.opt, got, c.want, f.Stats())
			}
		}
	})
}

func TestCheckpointsAreTakenByTimeWhateverTheClockDoes(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds, now := samples(t, 800), time.Unix(1e9, 0) // without a monotonic part
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EveryTime: time.Minute, Keep: -1}), made(t, options(dev))
	f.SetClock(func() time.Time { return now })
	for step, err := range f.Steps(t.Context(), tr, waiting(f, tr.Steps(t.Context(), ds))) {
		if err != nil {
			t.Fatal(err)
		}
		switch step.Number {
		case 20: // an hour back
			now = now.Add(-time.Hour)
		case 60: // and a day ahead
			now = now.Add(24 * time.Hour)
		default:
			now = now.Add(10 * time.Second)
		}
	}
	closed(t, f)
	// After 6 steps each; at step 20 the interval begins again.
	want := []int64{6, 12, 18, 26, 32, 38, 44, 50, 56, 60, 66, 72, 78, 84, 90, 96, 100}
	if got := stepsOf(f); !slices.Equal(got, want) {
		t.Errorf("after steps %v, want %v", got, want)
	}
}

func TestFitTakesCheckpointsDuringAnEpoch(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := slow(samples(t, 400), time.Millisecond/4) // 50 steps, of 2 ms at least
		f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 10, Keep: -1}), made(t, options(dev))
		f.SetFiles(unsynced{})
		r, err := f.Fit(t.Context(), tr, ds)
		closed(t, f)
		if got := f.Checkpoints(); err != nil || r.Steps != 50 || len(got) < 1 || got[0].Step < 10 || got[0].Step >= 50 {
			t.Errorf("%+v, %v; checkpoints %v", r, err, stepsOf(f))
		}
		want := uninterrupted(t, options(dev), ds, 1)
		again := opened(t, f.Dir(), checkpoint.Options{})
		tr = made(t, options(dev))
		if _, err := again.Restore(t.Context(), tr, again.Checkpoints()[0], trainer.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), ds); err != nil || bits(t, tr) != want {
			t.Errorf("%v; or other bits than without a break", err)
		}
		closed(t, again)
	})
}

func TestTheLastOnesAndTheBestOneAreKept(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds := samples(t, 40)
	for _, c := range []struct {
		opt    checkpoint.Options
		values []float64 // after each step
		want   []int64
		best   int64
	}{
		{checkpoint.Options{EverySteps: 1, Keep: 2}, []float64{1, 2, 3, 4, 5}, []int64{4, 5}, 0},
		{checkpoint.Options{EverySteps: 1}, []float64{1, 2, 3, 4, 5}, []int64{3, 4, 5}, 0},
		{checkpoint.Options{EverySteps: 1, Keep: 1, Best: checkpoint.Best{Metric: "m"}}, []float64{5, 1, 3, 1, math.NaN()}, []int64{2, 5}, 2},
		{checkpoint.Options{EverySteps: 1, Keep: 1, Best: checkpoint.Best{Metric: "m", Larger: true}}, []float64{5, 1, 3, 7, 6}, []int64{4, 5}, 4},
		{checkpoint.Options{EverySteps: 100, Keep: 1, Best: checkpoint.Best{Metric: "m", Larger: true}}, []float64{1, 5, math.Inf(1), 3, math.NaN()}, []int64{2, 5}, 2},
		{checkpoint.Options{EverySteps: 100, Keep: 3, Best: checkpoint.Best{Metric: "other"}}, []float64{1, 5, 2, 3, 4}, []int64{5}, 0},
	} {
		dir := t.TempDir()
		f, tr := opened(t, dir, c.opt), made(t, options(dev))
		for step, err := range f.Steps(t.Context(), tr, waiting(f, tr.Steps(t.Context(), ds))) {
			if err == nil {
				err = f.Measured(t.Context(), tr, map[string]float64{"m": c.values[step.Number-1]})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		closed(t, f)
		check := func(what string) {
			best, ok := f.Best()
			if got := stepsOf(f); !slices.Equal(got, c.want) || ok != (c.best > 0) || best.Step != c.best {
				t.Errorf("%s %+v: steps %v, want %v; best %+v, want %d", what, c.opt, got, c.want, best, c.best)
			}
			if got := names(t, dir); len(got) != len(c.want) {
				t.Errorf("%s %+v: files %q", what, c.opt, got)
			}
		}
		check("after training")
		f = opened(t, dir, c.opt) // the metrics are in the files
		check("opened again")
		closed(t, f)
	}
}

// An evaluation after the loop, such as the last one of loop.Evaluations, can still be the best
// one.
func TestAMeasurementAfterTheLoopIsKeptWithItsCheckpoint(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds := samples(t, 40)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{Best: checkpoint.Best{Metric: "loss"}}), made(t, options(dev))
	steps := f.Steps(t.Context(), tr, tr.Steps(t.Context(), ds))
	for e, err := range loop.Evaluations(t.Context(), tr, steps, ds, 0) {
		if err == nil {
			err = f.Measured(t.Context(), tr, checkpoint.Values(e.Result))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(); err != nil {
			t.Fatal(err)
		}
		if best, ok := f.Best(); !ok || best.Step != 5 || best.Metrics["loss"] != e.Result.Loss || best.Metrics["accuracy"] != e.Result.Accuracy {
			t.Errorf("best %+v, want %+v", best, e.Result)
		}
	}
	closed(t, f)
}

func TestBadOptionsAreReportedTogether(t *testing.T) {
	_, err := checkpoint.Open(t.TempDir(), checkpoint.Options{EverySteps: -1, EveryTime: -1, EveryEpochs: -1, ShardBytes: -1, Rollback: checkpoint.Rollback{Times: -1}})
	for _, want := range []string{"EverySteps", "EveryTime", "EveryEpochs", "ShardBytes", "Times"} {
		if err == nil || !errors.Is(err, trainer.ErrOption) || !contains(err, want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	for _, bad := range []checkpoint.Rollback{{RateFactor: -1}, {RateFactor: 2}, {RateFactor: math.NaN()}, {SameOrder: true}, {SameOrder: true, RateFactor: 1}} {
		if _, err := checkpoint.Open(t.TempDir(), checkpoint.Options{Rollback: bad}); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := checkpoint.Open("", checkpoint.Options{}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("no folder: %v", err)
	}
}

func TestATrainerWithoutMemoryForCheckpointsIsAnError(t *testing.T) {
	dev := targets[0].open(t, 0)
	opt := options(dev)
	opt.Checkpoint = false
	f, tr, ds := opened(t, t.TempDir(), checkpoint.Options{}), made(t, opt), samples(t, 40)
	n := 0
	for _, err := range f.Steps(context.Background(), tr, tr.Steps(context.Background(), ds)) {
		if n++; !errors.Is(err, trainer.ErrOption) || n > 1 {
			t.Errorf("step %d: %v", n, err)
		}
	}
	if n == 0 {
		t.Error("no error")
	}
	closed(t, f)
}
