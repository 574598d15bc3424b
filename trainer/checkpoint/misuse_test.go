package checkpoint_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// A folder that is closed in the body of a loop ends the loop with an error, or is left in peace if
// the body leaves it.
func TestAFolderThatIsClosedInTheBodyEndsTheLoop(t *testing.T) {
	ds := samples(t, 40)
	for _, leaves := range []bool{false, true} {
		f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 1}), made(t, options(targets[0].open(t, 0)))
		var last error
		steps := 0
		for _, err := range f.Steps(t.Context(), tr, loop.Until(t.Context(), tr, ds, 3)) {
			if last = err; err != nil {
				break
			}
			steps++
			closed(t, f)
			if leaves {
				break
			}
		}
		if steps != 1 || !leaves && !errors.Is(last, checkpoint.ErrClosed) {
			t.Errorf("leaves %v: %d steps, %v", leaves, steps, last)
		}
	}
}

// Stop between two epochs of Fit leaves a checkpoint of all that was trained.
func TestFitThatIsStoppedBetweenEpochsLeavesACheckpoint(t *testing.T) {
	ds := samples(t, 40)
	stop := make(chan struct{})
	f, tr := opened(t, t.TempDir(), checkpoint.Options{Stop: stop}), made(t, options(targets[0].open(t, 0)))
	for epochs := 0; tr.Position().Epoch < 9 && !f.Stopped(); epochs++ {
		if _, err := f.Fit(t.Context(), tr, ds); err != nil {
			t.Fatal(err)
		}
		if epochs == 1 {
			close(stop)
		}
	}
	if s := f.Stats(); s.Saved != 1 || s.Last.Step != 10 {
		t.Errorf("%+v", s)
	}
	closed(t, f)
}

// A checkpoint that is taken again after Resume keeps its metrics, so that the best stays the best.
func TestMetricsOutliveAResume(t *testing.T) {
	ds := samples(t, 40)
	best := checkpoint.Best{Metric: "loss"}
	dev := targets[0].open(t, 0)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{Best: best}), made(t, options(dev))
	train(t, f, tr, ds, 1)
	if err := f.Measured(t.Context(), tr, map[string]float64{"loss": 0.5}); err != nil {
		t.Fatal(err)
	}
	closed(t, f)
	f, tr = opened(t, f.Dir(), checkpoint.Options{Best: best}), made(t, options(dev))
	resume(t, f, tr)
	if err := f.Save(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if c, ok := f.Best(); !ok || c.Step != 5 || c.Metrics["loss"] != 0.5 {
		t.Errorf("%+v, %v", c, ok)
	}
	closed(t, f)
}

// Training on from an earlier state than the newest checkpoint's is refused before the first step.
func TestAnEarlierStateIsRefusedAtOnce(t *testing.T) {
	ds := samples(t, 40)
	dev := targets[0].open(t, 0)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 2, Keep: -1}), made(t, options(dev))
	for _, err := range f.Steps(t.Context(), tr, waiting(f, loop.Until(t.Context(), tr, ds, 1))) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Wait(); err != nil {
		t.Fatal(err)
	}
	try := func(what string) {
		t.Helper()
		steps := 0
		var last error
		for _, last = range f.Steps(t.Context(), tr, loop.Until(t.Context(), tr, ds, 2)) {
			if last == nil {
				steps++
			}
		}
		if steps != 0 || !errors.Is(last, checkpoint.ErrOccupied) {
			t.Errorf("%s: %d steps, %v", what, steps, last)
		}
	}
	if _, err := f.Restore(t.Context(), tr, f.Checkpoints()[0], trainer.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	try("restored")
	if _, err := f.ResumeWith(t.Context(), tr, trainer.RestoreOptions{ParametersOnly: true}); err != nil {
		t.Fatal(err)
	}
	try("parameters only")
	closed(t, f)
}

// A State that someone else holds is no reason to end the training.
func TestTrainingGoesOnWhileAnotherStateIsHeld(t *testing.T) {
	ds := samples(t, 40)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 2}), made(t, options(targets[0].open(t, 0)))
	state, err := tr.Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := train(t, f, tr, ds, 1)
	if len(all) != 5 || !errors.Is(f.Err(), trainer.ErrBusy) || !errors.Is(f.Err(), checkpoint.ErrSave) {
		t.Errorf("%d steps, %v", len(all), f.Err())
	}
	state.Release()
	if train(t, f, tr, ds, 2); f.Wait() != nil || f.Stats().Last.Step != 10 {
		t.Errorf("%v, %+v", f.Err(), f.Stats())
	}
	closed(t, f)
}

func TestCallsWithoutAnArgumentAreErrors(t *testing.T) {
	ds := samples(t, 40)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{}), made(t, options(targets[0].open(t, 0)))
	if err := f.Save(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	var none context.Context
	first := func(steps loop.Steps) (err error) {
		for _, err = range steps {
			break
		}
		return err
	}
	for what, call := range map[string]func() error{
		"Resume without a context":  func() error { _, err := f.Resume(none, tr); return err },
		"Restore without a context": func() error { _, err := f.Restore(none, tr, f.Checkpoints()[0], trainer.RestoreOptions{}); return err },
		"Save without a context":    func() error { return f.Save(none, tr) },
		"Fit without a context":     func() error { _, err := f.Fit(none, tr, ds); return err },
		"Fit without data":          func() error { _, err := f.Fit(t.Context(), tr, nil); return err },
		"Steps without a context":   func() error { return first(f.Steps(none, tr, loop.Until(t.Context(), tr, ds, 3))) },
		"Steps without steps":       func() error { return first(f.Steps(t.Context(), tr, nil)) },
	} {
		if err := call(); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := f.Save(t.Context(), nil); !errors.Is(err, trainer.ErrClosed) {
		t.Errorf("Save without a trainer: %v", err)
	}
	closed(t, f)
}

func TestAPanicOfTheBodyLeavesTheFolderUsable(t *testing.T) {
	ds := samples(t, 40)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 1}), made(t, options(targets[0].open(t, 0)))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		for step := range f.Steps(t.Context(), tr, loop.Until(t.Context(), tr, ds, 3)) {
			if step.Number == 3 {
				panic("body")
			}
		}
	}()
	if err := f.Save(t.Context(), tr); err != nil || f.Stats().Last.Step != 3 {
		t.Errorf("%v, %+v", err, f.Stats())
	}
	closed(t, f)
}

// Best.Larger without a Metric would keep nothing.
func TestBestWithoutAMetricIsRefused(t *testing.T) {
	for _, c := range []struct {
		best checkpoint.Best
		bad  bool
	}{{checkpoint.Best{Larger: true}, true}, {checkpoint.Best{}, false}, {checkpoint.Best{Metric: "accuracy", Larger: true}, false}} {
		f, err := checkpoint.Open(t.TempDir(), checkpoint.Options{Best: c.best})
		if c.bad != errors.Is(err, trainer.ErrOption) || c.bad != (err != nil && contains(err, "Best.Larger needs the name of a Metric")) {
			t.Errorf("%+v: got %v", c.best, err)
		}
		if err == nil {
			closed(t, f)
		}
	}
}
