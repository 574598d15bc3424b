package checkpoint_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

// A requested checkpoint is taken after the step, whatever the intervals are.
func TestARequestedCheckpointIsTakenAfterTheStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 400)
		tr := made(t, options(dev))
		f := opened(t, filepath.Join(t.TempDir(), "run"), checkpoint.Options{EveryEpochs: 9, Keep: -1})
		for step, err := range f.Steps(t.Context(), tr, tr.Steps(t.Context(), ds)) {
			if err != nil {
				t.Fatal(err)
			}
			if step.Number == 5 {
				f.Request()
			}
			if step.Number == 6 && f.Requested() {
				t.Error("the request is not fulfilled")
			}
		}
		if err := f.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := stepsOf(f); !slices.Equal(got, []int64{5, 50}) {
			t.Errorf("checkpoints of steps %v", got)
		}
	})
}

// Fit takes it, too, from another goroutine.
func TestFitTakesARequestedCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 400)
		opt := options(dev)
		var f *checkpoint.Folder
		opt.Progress = func(p trainer.Progress) {
			if p.Step == 5 {
				f.Request()
			}
			if p.Step > 5 && p.Step < 45 && f.Requested() {
				time.Sleep(2 * time.Millisecond) // Fit looks every 5 ms
			}
		}
		tr := made(t, opt)
		f = opened(t, filepath.Join(t.TempDir(), "run"), checkpoint.Options{EveryEpochs: 9})
		if _, err := f.Fit(t.Context(), tr, ds); err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := stepsOf(f); len(got) != 1 || got[0] < 5 || got[0] >= 45 || f.Requested() {
			t.Errorf("checkpoints of steps %v, requested %v", got, f.Requested())
		}
	})
}
