package checkpoint_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Rank 0 writes checkpoints, and all ranks resume from them: also in the middle of an epoch, and with another number of ranks that share the same batch.
func TestAGroupResumesWithAnotherNumberOfRanks(t *testing.T) {
	const batch, steps = 12, 5 // of all ranks; steps until the run is left
	run := func(dir string, size int, until int64) map[string][]float32 {
		groups, err := group.Local(size, group.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var result map[string][]float32
		var wg sync.WaitGroup
		for _, g := range groups {
			wg.Go(func() {
				defer g.Close()
				got, err := trainRank(t, g, dir, batch, until)
				if err != nil {
					t.Errorf("rank %d of %d: %v", g.Rank(), size, err)
				}
				if g.Rank() == 0 {
					result = got
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		return result
	}
	want := run(t.TempDir(), 2, 16)
	for _, then := range []int{1, 2, 3, 4} {
		dir := t.TempDir()
		run(dir, 2, steps)
		got := run(dir, then, 16)
		for name, b := range want {
			if then == 2 && !slices.Equal(got[name], b) {
				t.Errorf("%d ranks: %s has other bits than that of a run that was not left", then, name)
			}
			for i, y := range b {
				if x := got[name][i]; math.Abs(float64(x-y)) > 1e-5 {
					t.Fatalf("%d ranks: %s[%d] is %v, want %v", then, name, i, x, y)
				}
			}
		}
	}
}

// trainRank trains a rank from the newest checkpoint in dir until the end of a step, and returns its parameters. Rank 0 writes checkpoints.
func trainRank(t *testing.T, g group.Group, dir string, batch int, until int64) (map[string][]float32, error) {
	ctx, ds := t.Context(), samples(t, 100) // 9 steps, the last one of 4 samples
	tr, err := trainer.New(ctx, plain, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: batch / g.Size(), Group: g, Seed: 7, Checkpoint: true,
		Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}})
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	f, err := checkpoint.Open(dir, checkpoint.Options{EverySteps: 1, ReadOnly: g.Rank() > 0})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Resume(ctx, tr); err != nil {
		return nil, err
	}
	steps := loop.Until(ctx, tr, ds, 100)
	if tr.Stats().Updates >= until {
		steps = func(func(trainer.Step, error) bool) {}
	}
	if g.Rank() == 0 {
		steps = f.Steps(ctx, tr, steps)
	}
	for step, err := range steps {
		if err != nil {
			return nil, err
		}
		if step.Number >= until {
			break
		}
	}
	if _, err := tr.Evaluate(ctx, ds); err != nil {
		return nil, err
	}
	params, err := tr.Params()
	if err != nil {
		return nil, err
	}
	all := make(map[string][]float32)
	for _, p := range params {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			return nil, err
		}
		all[p.Name] = dataloader.View[float32](b)
	}
	return all, nil
}

// plain is net without batch normalization, whose statistics are of a rank's part of a batch, and without dropout.
func plain(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x := n.Input("x", batch, 4)
	return n.Classifier(x, n.Dense(n.Dense(x, "hidden", 8, layers.Tanh), "out", 3, nil))
}
