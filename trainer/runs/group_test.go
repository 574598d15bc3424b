package runs_test

import (
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

// grouped trains two ranks, of which the first one is recorded, and returns their errors. The ranks
// wait for each other for a quarter of a second.
func grouped(t *testing.T, r *runs.Run, shard trainer.Shard, step func(trainer.Progress)) (errs [2]error) {
	t.Helper()
	groups, err := group.Local(2, group.Options{Limit: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var ranks sync.WaitGroup
	for i, g := range groups {
		opt := trainer.Options{Device: cputest.OpenChecked(t, cpu.Options{Threads: 1}), Batch: 4, Seed: 1, Optimizer: optim.SGD{Rate: 0.01},
			Group: g, Shard: shard}
		runs.Keep(&opt)
		if i == 0 {
			opt.Progress = func(p trainer.Progress) { step(p); r.Progress(p) }
		}
		ranks.Go(func() {
			defer func() { _ = g.Close() }()
			tr, err := trainer.New(t.Context(), net, opt)
			if err != nil {
				errs[i] = err
				g.Abort(err)
				return
			}
			defer func() { _ = tr.Close() }()
			if i == 0 {
				errs[i] = r.Attach(runs.Source{Trainer: tr, Group: g})
				defer func() { _ = r.Close() }()
			}
			if _, err := tr.Fit(t.Context(), data(t, 80)); err != nil {
				errs[i] = err
			}
		})
	}
	ranks.Wait()
	return errs
}

// The other ranks wait for a paused one, however long their limit is.
func TestAPauseHoldsAGroup(t *testing.T) {
	t.Parallel()
	r := created(t, t.Context(), "", runs.Options{})
	errs := grouped(t, r, trainer.ShardNothing, func(p trainer.Progress) {
		if p.StepNumber == 3 {
			r.Pause()
			time.AfterFunc(750*time.Millisecond, r.Continue)
		}
	})
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if s := r.State(); s.Number != 10 || s.Time.Host > 0.5 {
		t.Errorf("step %d, and %v s of the host: the pause counts", s.Number, s.Time.Host)
	}
}

// Ranks that share gradients keep no norms by layer.
func TestARunOfRanksThatShareGradients(t *testing.T) {
	t.Parallel()
	for _, shard := range []trainer.Shard{trainer.ShardState, trainer.ShardGradients} {
		r := created(t, t.Context(), "", runs.Options{})
		for rank, err := range grouped(t, r, shard, func(trainer.Progress) {}) {
			if err != nil {
				t.Errorf("%v: rank %d: %v", shard, rank, err)
			}
		}
		if s := r.State(); s.Number != 10 || !(s.Norm > 0) {
			t.Errorf("%v: step %d, norm %v", shard, s.Number, s.Norm)
		}
	}
}
