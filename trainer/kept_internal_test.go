package trainer

import "testing"

// Slots that share results make the kept values of each other stale.
func TestAStepOverwritesTheKeptValuesOfSlotsWithItsResults(t *testing.T) {
	for s, stale := range map[int]bool{0: true, 1: false, 2: true, 3: false} {
		tr := &Trainer{kept: keptValues{program: &boundProgram{}, slot: 2}}
		if err := tr.invalidateKept(&slot{index: s}); err != nil {
			t.Fatal(err)
		}
		if (tr.kept.program == nil) != stale {
			t.Errorf("a step on slot %d: kept values of slot 2 are stale: %t, want %t", s, !stale, stale)
		}
	}
}
