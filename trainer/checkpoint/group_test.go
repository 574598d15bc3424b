package checkpoint_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// together is a run of ranks that share the state, on one folder.
type together struct {
	dir   string
	size  int
	shard trainer.Shard
	opt   checkpoint.Options
	// stops is the rank that has opt.Stop.
	stops    int
	progress func(rank int, p trainer.Progress)
}

// run calls train on each rank, with a trainer that goes on from the newest checkpoint, and returns the parameters of the first rank.
func (r together) run(t *testing.T, train func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error) map[string][]float32 {
	t.Helper()
	const batch = 12 // of all ranks
	groups, err := group.Local(r.size, group.Options{Limit: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var result map[string][]float32
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			defer g.Close()
			var progress func(trainer.Progress)
			if r.progress != nil {
				progress = func(p trainer.Progress) { r.progress(g.Rank(), p) }
			}
			ds := samples(t, 100) // 9 steps, the last one of 4 samples
			tr, err := trainer.New(t.Context(), plain, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: batch / r.size, Group: g, Seed: 7, Checkpoint: true,
				Fields: ds.Fields(), Shard: r.shard, Optimizer: optim.Adam{}, Progress: progress})
			if err != nil {
				t.Error(err)
				return
			}
			defer tr.Close()
			opt := r.opt
			opt.Group = g
			if g.Rank() != r.stops {
				opt.Stop = nil
			}
			f, err := checkpoint.Open(r.dir, opt)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if _, err := f.Resume(t.Context(), tr); err != nil {
				t.Error(err)
				return
			}
			if err := train(g, f, tr, ds); err != nil {
				t.Errorf("rank %d of %d: %v", g.Rank(), r.size, err)
			}
			params, err := tr.Params()
			if err != nil {
				t.Error(err)
				return
			}
			if g.Rank() > 0 {
				return
			}
			result = make(map[string][]float32)
			for _, p := range params {
				b := make([]byte, p.Spec.Bytes())
				if err := p.Read(b); err != nil {
					t.Error(err)
				}
				result[p.Name] = dataloader.View[float32](b)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return result
}

// until trains by Steps until the end of a step.
func until(last int64) func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
	return func(_ group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
		for step, err := range f.Steps(context.Background(), tr, loop.Until(context.Background(), tr, ds, 100)) {
			if err != nil {
				return err
			}
			if step.Number == last {
				break
			}
		}
		return nil
	}
}

// Ranks that share the state write one checkpoint together, within an epoch, and another number of ranks, which share it or not, goes on from it.
func TestRanksThatShareTheStateResumeWithAnotherNumberOfRanks(t *testing.T) {
	want := together{dir: t.TempDir(), size: 2, shard: trainer.ShardState, opt: checkpoint.Options{EverySteps: 2}}.run(t, until(16))
	for _, first := range []together{{size: 3, shard: trainer.ShardGradients}, {size: 2}} {
		for _, then := range []together{{size: 1}, {size: 2, shard: trainer.ShardState}, {size: 4, shard: trainer.ShardState}} {
			first.dir = t.TempDir()
			then.dir, first.opt.EverySteps, then.opt.EverySteps = first.dir, 2, 100
			first.run(t, until(5))
			got := then.run(t, until(16))
			for name, b := range want {
				for i, y := range b {
					if x := got[name][i]; math.Abs(float64(x-y)) > 1e-4 {
						t.Fatalf("%d ranks, then %d: %s[%d] is %v, want %v", first.size, then.size, name, i, x, y)
					}
				}
			}
		}
	}
}

// The first rank decides for all: when a checkpoint is due by the time, is the best, or is the last one because its Stop is closed.
func TestTheFirstRankDecidesWhenACheckpointIsTaken(t *testing.T) {
	stop := make(chan struct{})
	r := together{dir: t.TempDir(), size: 3, shard: trainer.ShardState, opt: checkpoint.Options{EveryTime: time.Nanosecond, Keep: -1, Best: checkpoint.Best{Metric: "loss"}}}
	var once sync.Once
	r.run(t, func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
		for step, err := range f.Steps(context.Background(), tr, loop.Until(context.Background(), tr, ds, 100)) {
			if err != nil {
				return err
			}
			if err := f.Measured(context.Background(), tr, map[string]float64{"loss": step.Loss + float64(g.Rank())}); err != nil {
				return err
			}
			if step.Number == 4 {
				break
			}
		}
		if got := f.Checkpoints(); g.Rank() == 0 && (len(got) < 2 || got[len(got)-1].Step != 4) {
			t.Errorf("checkpoints %v, want one of step 4 and earlier ones", got)
		}
		return f.Save(context.Background(), tr)
	})
	stopped := 0
	var mu sync.Mutex
	r.opt.Stop, r.opt.EveryTime = stop, time.Hour
	r.run(t, func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
		for step, err := range f.Steps(context.Background(), tr, loop.Until(context.Background(), tr, ds, 100)) {
			if err != nil {
				return err
			}
			if step.Number == 7 && g.Rank() == 0 {
				once.Do(func() { close(stop) })
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if f.Stopped() && tr.Stats().Steps == 7 {
			stopped++
		}
		return nil
	})
	if stopped != 3 {
		t.Errorf("%d ranks have stopped after step 7, want 3", stopped)
	}
}

// Fit takes checkpoints at the ends of epochs, and ranks cannot roll back.
func TestRanksTakeCheckpointsAtTheEndsOfEpochsOfFit(t *testing.T) {
	r := together{dir: t.TempDir(), size: 2, shard: trainer.ShardGradients, opt: checkpoint.Options{EveryEpochs: 2, Keep: -1}}
	r.run(t, func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
		for range 5 {
			if _, err := f.Fit(context.Background(), tr, ds); err != nil {
				return err
			}
		}
		var steps []int64
		for _, c := range f.Checkpoints() {
			steps = append(steps, c.Step)
		}
		if g.Rank() == 0 && !slices.Equal(steps, []int64{18, 36}) {
			t.Errorf("checkpoints of steps %v, want 18 and 36", steps)
		}
		_, err := checkpoint.Open(r.dir+"/other", checkpoint.Options{Group: g, Rollback: checkpoint.Rollback{Times: 1}})
		if !errors.Is(err, trainer.ErrOption) {
			t.Errorf("rollback: got %v, want ErrOption", err)
		}
		if _, err := checkpoint.Open(r.dir, checkpoint.Options{Group: g}); err == nil {
			t.Errorf("rank %d: a folder that is open is opened again", g.Rank())
		}
		return nil
	})
}

// Fit takes checkpoints within an epoch, by steps and on request, and Stop of any rank ends it for all after the same step;
// what goes on from there has the bits of Trainer.Fit.
func TestRanksTakeCheckpointsWithinAnEpochOfFit(t *testing.T) {
	fit := func(_ group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
		for tr.Position().Epoch < 3 && !f.Stopped() {
			if _, err := f.Fit(context.Background(), tr, ds); err != nil {
				return err
			}
		}
		return nil
	}
	want := together{dir: t.TempDir(), size: 2, shard: trainer.ShardState}.run(t, func(_ group.Group, _ *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
		for range 3 {
			if _, err := tr.Fit(context.Background(), ds); err != nil {
				return err
			}
		}
		return nil
	})
	for i, at := range []int64{14, 18, 14, 18, 15} { // within an epoch, at its end, and where a checkpoint is due
		stop := make(chan struct{})
		r := together{dir: t.TempDir(), size: 2, shard: trainer.ShardState, opt: checkpoint.Options{EverySteps: 5, Keep: -1, Stop: stop}, stops: min(1, i/2)}
		var folder *checkpoint.Folder
		r.progress = func(rank int, p trainer.Progress) {
			if rank == r.stops && p.StepNumber == at {
				close(stop)
			}
			if rank == 0 {
				_ = folder.Wait() // none is put off
				if p.StepNumber == 7 {
					folder.Request()
				}
			}
		}
		r.run(t, func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
			if g.Rank() == 0 {
				folder = f
			}
			if err := fit(g, f, tr, ds); err != nil {
				return err
			}
			if n := tr.Stats().Steps; n != at || !f.Stopped() {
				t.Errorf("rank %d: %d steps, stopped %v, want %d", g.Rank(), n, f.Stopped(), at)
			}
			if _, err := f.Fit(context.Background(), tr, ds); err != nil {
				return err
			}
			var steps []int64
			for _, c := range f.Checkpoints() {
				steps = append(steps, c.Step)
			}
			if g.Rank() == 0 && !slices.Equal(steps, map[int64][]int64{14: {5, 7, 10, 14}, 15: {5, 7, 10, 15}, 18: {5, 7, 10, 15, 18}}[at]) {
				t.Errorf("checkpoints of steps %v", steps)
			}
			return g.Err()
		})
		r.progress, r.opt.Stop = nil, nil
		for name, b := range r.run(t, fit) {
			if !slices.Equal(b, want[name]) {
				t.Errorf("stopped after step %d: %s has other bits than that of Trainer.Fit", at, name)
			}
		}
	}
}

// Stop of any rank ends the loops of Steps of all after the same step, with a checkpoint, and those that follow before a step.
func TestStopOfAnyRankEndsSteps(t *testing.T) {
	for stops := range 2 {
		stop := make(chan struct{})
		r := together{dir: t.TempDir(), size: 2, opt: checkpoint.Options{EverySteps: 5, Stop: stop}, stops: stops}
		r.run(t, func(g group.Group, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset) error {
			for range 2 {
				for step, err := range f.Steps(context.Background(), tr, loop.Until(context.Background(), tr, ds, 100)) {
					if err != nil {
						return err
					}
					if step.Number == 8 && g.Rank() == stops {
						close(stop)
					}
				}
			}
			if n := tr.Stats().Steps; n != 8 || !f.Stopped() {
				t.Errorf("rank %d, Stop of %d: %d steps, stopped %v", g.Rank(), stops, n, f.Stopped())
			}
			if last := f.Stats().Last.Step; g.Rank() == 0 && last != 8 {
				t.Errorf("Stop of %d: the last checkpoint is of step %d", stops, last)
			}
			return g.Err()
		})
	}
}
