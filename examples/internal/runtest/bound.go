package runtest

import (
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// MeetsTheBound plans e for a device without workspaces and fails t if a program needs more scratch
// than its peak.
func MeetsTheBound(t *testing.T, e run.Example) {
	t.Helper()
	train, _, err := e.Load(e.Flags)
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
		plan, err := trainer.Plan(t.Context(), e.Model, trainer.Options{Batch: e.Flags.Batch, Fields: train.Fields(), Optimizer: optim.Adam{}, Guard: guard})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plan.Programs {
			if p.Scratch != p.Live || p.Live == 0 {
				t.Errorf("%s, guard %d: %d bytes of scratch, peak %d: %v", p.Name, guard, p.Scratch, p.Live, p.Notes)
			}
		}
	}
}
