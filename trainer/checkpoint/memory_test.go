package checkpoint_test

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// A device with the bytes of the plan trains, takes checkpoints and resumes; with one byte less
// nothing is made.
func TestTheCapacityWithCheckpointsIsThePlan(t *testing.T) {
	ds := samples(t, 40)
	for _, d := range targets {
		name, open := d.name, func(memory int64) kernels.Device { return d.open(t, memory) }
		plan, err := trainer.Plan(t.Context(), net, options(open(1<<30)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trainer.New(t.Context(), net, options(open(plan.Total-1))); !errors.Is(err, arena.ErrCapacity) {
			t.Errorf("%s: with a byte less: %v", name, err)
		}
		dev := open(plan.Total)
		f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 2}), made(t, options(dev))
		before := tr.Stats()
		trainTo(t, f, tr, ds, 7)
		resume(t, f, tr)
		train(t, f, tr, ds, 3)
		closed(t, f)
		if after := tr.Stats(); after.Arena.InUse != before.Arena.InUse || after.Arena.Reserved != plan.Total || after.Pinned != before.Pinned {
			t.Errorf("%s: %+v after training, %+v before, plan %d", name, after, before, plan.Total)
		}
	}
}

// Between checkpoints a step makes no heap object, and with 400 checkpoints memory is as after 40.
func TestMemoryWithCheckpointsIsFlat(t *testing.T) {
	if cputest.Race {
		t.Skip("counts heap objects, of which the race detector makes its own")
	}
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 1})
	ds, ctx := samples(t, 80), context.Background() // 10 steps
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 10}), made(t, options(dev))
	f.SetFiles(unsynced{})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := uint64(1 << 62)
	var first, last, start, end runtime.MemStats
	var goroutines int
	for step, err := range f.Steps(ctx, tr, loop.Until(ctx, tr, ds, 400)) {
		if err != nil {
			t.Fatal(err)
		}
		switch step.Step {
		case 4: // the checkpoint after step 10 of the epoch before is written
			_ = f.Wait()
			runtime.ReadMemStats(&first)
		case 9:
			runtime.ReadMemStats(&last)
			best = min(best, last.Mallocs-first.Mallocs)
		}
		if step.Step == 10 && (step.Epoch == 40 || step.Epoch == 399) {
			runtime.GC()
			if start = end; step.Epoch == 40 {
				goroutines = runtime.NumGoroutine()
			}
			runtime.ReadMemStats(&end)
		}
	}
	if best != 0 {
		t.Errorf("%d heap objects in 5 steps, want 0", best)
	}
	if grown := int64(end.HeapAlloc) - int64(start.HeapAlloc); grown > 64<<10 || runtime.NumGoroutine() > goroutines+2 {
		t.Errorf("the heap has grown by %d bytes, and %d goroutines are %d, in 360 checkpoints", grown, goroutines, runtime.NumGoroutine())
	}
	if s := f.Stats(); s.Saved < 390 {
		t.Errorf("%+v", s)
	}
	closed(t, f)
}
