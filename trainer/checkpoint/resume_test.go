package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// A run of 4 epochs that is left after any step and goes on in a new trainer ends with the same
// bits.
func TestAResumedRunEndsWithTheSameBits(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 37) // the last batch is short
		want := uninterrupted(t, options(dev), ds, 4)
		for _, cut := range []int64{1, 4, 5, 11, 19} {
			dir := t.TempDir()
			first := opened(t, dir, checkpoint.Options{EverySteps: 3})
			trainTo(t, first, made(t, options(dev)), ds, cut)
			closed(t, first)
			second, tr := opened(t, dir, checkpoint.Options{EverySteps: 3}), made(t, options(dev))
			if r := resume(t, second, tr); r.From.Step != cut || len(r.Passed) > 0 || len(r.Restored.Differences) > 0 {
				t.Errorf("left after step %d: %+v", cut, r)
			}
			if got := train(t, second, tr, ds, 4); int64(len(got)) != 20-cut || got[0] != cut+1 {
				t.Errorf("left after step %d: went on with %v", cut, got)
			}
			if got := bits(t, tr); got != want {
				t.Errorf("left after step %d: other bits than a run without a break", cut)
			}
			closed(t, second)
		}
	})
}

func TestFitWithCheckpointsResumesWithTheSameBits(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40)
		want := uninterrupted(t, options(dev), ds, 4)
		dir, ctx := t.TempDir(), context.Background()
		first, tr := opened(t, dir, checkpoint.Options{EveryEpochs: 2}), made(t, options(dev))
		for range 3 {
			if _, err := first.Fit(ctx, tr, ds); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, first)
		second, tr := opened(t, dir, checkpoint.Options{EveryEpochs: 2}), made(t, options(dev))
		if r := resume(t, second, tr); r.From.Step != 10 || r.Position.Epoch != 2 {
			t.Errorf("went on at %+v", r)
		}
		for tr.Position().Epoch < 4 {
			if _, err := second.Fit(ctx, tr, ds); err != nil {
				t.Fatal(err)
			}
		}
		if got := bits(t, tr); got != want {
			t.Error("other bits than a run without a break")
		}
		closed(t, second)
	})
}

func TestAFolderWithoutCheckpointsBeginsAnew(t *testing.T) {
	dev := targets[0].open(t, 0)
	f, tr := opened(t, filepath.Join(t.TempDir(), "a", "b"), checkpoint.Options{}), made(t, options(dev))
	if r, err := f.Resume(t.Context(), tr); err != nil || r.Found {
		t.Errorf("resumed %+v, %v", r, err)
	}
	train(t, f, tr, samples(t, 40), 1)
	closed(t, f)
}

// A checkpoint that is cut anywhere is passed over, and the one before it is taken.
func TestACheckpointCutAtAnyByteIsPassedOver(t *testing.T) {
	dev := targets[0].open(t, 0)
	dir, ds, opt := t.TempDir(), samples(t, 40), options(dev)
	opt.Optimizer = optim.SGD{}
	f, tr := opened(t, dir, checkpoint.Options{EverySteps: 1}), made(t, opt)
	trainTo(t, f, tr, ds, 2)
	want := bits(t, tr)
	trainTo(t, f, tr, ds, 3)
	if err := f.Wait(); err != nil {
		t.Fatal(err)
	}
	all := f.Checkpoints()
	last := f.Path(all[len(all)-1])
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	every := 1
	if testing.Short() {
		every = 17
	}
	for n := 0; n < len(whole); n += every {
		if err := os.WriteFile(last, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := f.Resume(t.Context(), tr)
		if err != nil || r.From.Step != 2 || len(r.Passed) != 1 || !errors.Is(r.Passed[0].Err, safetensors.ErrFormat) {
			t.Fatalf("cut at byte %d of %d: %+v, %v", n, len(whole), r, err)
		}
	}
	if bits(t, tr) != want {
		t.Error("other bits than those of the checkpoint before")
	}
	// It is whole again.
	if err := os.WriteFile(last, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := resume(t, f, tr); r.From.Step != 3 {
		t.Errorf("whole again: %+v", r)
	}
	closed(t, f)
}

func TestEveryDamagedByteIsFound(t *testing.T) {
	dev := targets[0].open(t, 0)
	dir, ds := t.TempDir(), samples(t, 40)
	f, tr := opened(t, dir, checkpoint.Options{EverySteps: 1}), made(t, options(dev))
	trainTo(t, f, tr, ds, 2)
	closed(t, f)
	f = opened(t, dir, checkpoint.Options{})
	last := f.Path(f.Checkpoints()[1])
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 61 {
		bad := slices.Clone(whole)
		bad[n] ^= 1 << (n % 8)
		if err := os.WriteFile(last, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := f.Resume(t.Context(), tr); err != nil || r.From.Step != 1 || len(r.Passed) != 1 {
			t.Fatalf("byte %d: %+v, %v", n, r, err)
		}
	}
	closed(t, f)
}

func TestAFolderNoneOfWhoseCheckpointsCanBeReadIsAnError(t *testing.T) {
	dev := targets[0].open(t, 0)
	dir, ds := t.TempDir(), samples(t, 40)
	for _, name := range []string{"step-000000000003.safetensors", "step-000000000005.safetensors"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, tr := opened(t, dir, checkpoint.Options{}), made(t, options(dev))
	before := bits(t, tr)
	_, err := f.Resume(t.Context(), tr)
	var e *checkpoint.UnreadableError
	if !errors.As(err, &e) || !errors.Is(err, checkpoint.ErrUnreadable) || len(e.Passed) != 2 || e.Passed[0].Name != "step-000000000005.safetensors" {
		t.Errorf("got %v", err)
	}
	if bits(t, tr) != before {
		t.Error("the trainer has changed")
	}
	for _, err := range f.Steps(t.Context(), tr, tr.Steps(t.Context(), ds)) {
		if !errors.Is(err, checkpoint.ErrOccupied) {
			t.Errorf("trained over checkpoints: %v", err)
		}
	}
	closed(t, f)
}

// A run that has not resumed writes nothing over the checkpoints of another one.
func TestCheckpointsOfAnotherRunAreNotReplaced(t *testing.T) {
	dev := targets[0].open(t, 0)
	dir, ds := t.TempDir(), samples(t, 40)
	f := opened(t, dir, checkpoint.Options{EverySteps: 2})
	trainTo(t, f, made(t, options(dev)), ds, 4)
	closed(t, f)
	f = opened(t, dir, checkpoint.Options{EverySteps: 2})
	tr := made(t, options(dev))
	for what, call := range map[string]func() error{
		"Save":     func() error { return f.Save(t.Context(), tr) },
		"Measured": func() error { return f.Measured(t.Context(), tr, nil) },
		"Fit":      func() error { _, err := f.Fit(t.Context(), tr, ds); return err },
	} {
		var e *checkpoint.OccupiedError
		if err := call(); !errors.As(err, &e) || !errors.Is(err, checkpoint.ErrOccupied) || e.Newest != "step-000000000004.safetensors" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// From one that is not the newest, training does not go on in the folder.
	resume(t, f, tr)
	if _, err := f.Restore(t.Context(), tr, f.Checkpoints()[0], trainer.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(t.Context(), tr); !errors.Is(err, checkpoint.ErrOccupied) {
		t.Errorf("an older state is saved: %v", err)
	}
	closed(t, f)
}

func TestACheckpointOfAnotherModelIsRefused(t *testing.T) {
	dev := targets[0].open(t, 0)
	dir, ds := t.TempDir(), samples(t, 40)
	f := opened(t, dir, checkpoint.Options{EverySteps: 2})
	trainTo(t, f, made(t, options(dev)), ds, 4)
	closed(t, f)
	f = opened(t, dir, checkpoint.Options{})
	opt := options(dev)
	opt.Optimizer = optim.SGD{Momentum: 0.9}
	tr := made(t, opt)
	before := bits(t, tr)
	var e *trainer.RestoreError
	if r, err := f.Resume(t.Context(), tr); !errors.As(err, &e) || r.Found || len(r.Passed) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if bits(t, tr) != before {
		t.Error("the trainer has changed")
	}
	if r, err := f.ResumeWith(t.Context(), tr, trainer.RestoreOptions{ParametersOnly: true}); err != nil || !r.Found {
		t.Errorf("parameters only: %+v, %v", r, err)
	}
	closed(t, f)
}
