package nets_test

import (
	"context"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Each small net memorizes eight samples.
func TestSmallNetsLearn(t *testing.T) {
	const seed = 5
	for _, n := range nets.Small() {
		t.Run(n.Name, func(t *testing.T) {
			ds, err := n.Data(8, seed)
			if err != nil {
				t.Fatal(err)
			}
			dev := cputest.Open(t, cpu.Options{})
			tr, err := trainer.New(t.Context(), n.Model, trainer.Options{Device: dev, Batch: n.Batch, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			before, err := tr.Evaluate(ctx, ds)
			if err != nil {
				t.Fatal(err)
			}
			for range 60 {
				if _, err := tr.Fit(ctx, ds); err != nil {
					t.Fatal(err)
				}
			}
			after, err := tr.Evaluate(ctx, ds)
			if err != nil {
				t.Fatal(err)
			}
			if t.Logf("loss %.3f, then %.3f", before.Loss, after.Loss); math.IsNaN(after.Loss) || after.Loss > 0.7*before.Loss {
				t.Errorf("loss %v, then %v: want at most 0.7 of it (seed %d)", before.Loss, after.Loss, seed)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The plans of all nets need exactly the bytes of their peak.
func TestPlansMeetTheBound(t *testing.T) {
	for _, n := range append(nets.All(), nets.Small()...) {
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			plan, err := trainer.Plan(t.Context(), n.Model, trainer.Options{Batch: n.Batch, Guard: guard, Optimizer: optim.Adam{}})
			if err != nil {
				t.Fatalf("%s, %s: %v", n.Name, n.About, err)
			}
			for _, p := range plan.Programs {
				if p.Scratch != p.Live || p.Live == 0 {
					t.Errorf("%s, %s, %s: %d bytes, the bound is %d: %v", n.Name, n.About, p.Name, p.Scratch, p.Live, p.Notes)
				}
				if len(p.Fallbacks) > 0 {
					t.Errorf("%s, %s: run by Gorgonia's code: %q", n.Name, p.Name, p.Fallbacks)
				}
			}
		}
	}
}

// Workspaces of the host's kernels are planned like other buffers. Other machines have kernels that this test cannot try, so it
// allows 1 % above the bound.
func TestPlansWithWorkspacesAreNearTheBound(t *testing.T) {
	for _, threads := range []int{1, 2} {
		dev := cputest.Open(t, cpu.Options{Threads: threads})
		for _, n := range nets.All() {
			plan, err := trainer.Plan(t.Context(), n.Model, trainer.Options{Device: dev, Batch: n.Batch, Guard: trainer.GuardEach})
			if err != nil {
				t.Fatalf("%s: %v", n.Name, err)
			}
			p := plan.Programs[0]
			if t.Logf("%s, %d threads: %d bytes, the bound is %d", n.Name, threads, p.Scratch, p.Live); float64(p.Scratch) > 1.01*float64(p.Live) {
				t.Errorf("%s, %d threads: %d bytes, the bound is %d: %v", n.Name, threads, p.Scratch, p.Live, p.Notes)
			}
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
