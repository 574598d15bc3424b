package trainer

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// keptValues locates the kept values of the last finished step. With two slots:
//
//	step 0 finishes on slot 0   Kept returns values of slot 0
//	step 2 begins on slot 0     handles become stale, Kept returns ErrStale
//	step 1 finishes on slot 1   Kept returns values of slot 1
type keptValues struct {
	program *boundProgram // nil if there is no such step, or its values are about to be overwritten
	slot    int
	valid   bool // Kept has returned a handle that is not stale
}

// Kept returns a handle to the value that a name of Options.Keep has in the last finished step, the
// one of the latest call of Options.Progress; Read copies the value as floats. The spec is the
// value's type and shape in that step: a last, short batch has fewer rows. Use the handle inside
// Options.Progress, in the body of Steps, or after a pass or Step until the next one: as soon as that
// prepares another step, the handle returns arena.ErrStale. Before the first step Kept returns
// arena.ErrStale.
func (t *Trainer) Kept(name string) (arena.Handle, kernels.Spec, error) {
	if t.use().isClosed() {
		return arena.Handle{}, kernels.Spec{}, errClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v, err := t.keptValue(name)
	if err != nil {
		return arena.Handle{}, kernels.Spec{}, err
	}
	t.kept.valid = true
	h, err := t.memory.arena.Handle(t.memory.ref(v.Ref, t.kept.slot), name)
	return h, v.Spec, err
}

// keptValue returns a kept value of the last finished step. The caller holds the lock.
func (t *Trainer) keptValue(name string) (ir.Value, error) {
	if !slices.Contains(t.plan.kept, name) {
		return ir.Value{}, fmt.Errorf("%q is not kept: add it to Options.Keep: %w", name, ErrOption)
	}
	if t.kept.program == nil {
		return ir.Value{}, fmt.Errorf("%q: no step has run yet: %w", name, arena.ErrStale)
	}
	v, ok := t.kept.program.ir.Result(name)
	if !ok {
		return ir.Value{}, fmt.Errorf("%q: the last step does not compute it: %w", name, arena.ErrStale)
	}
	return v, nil
}

// invalidateKept invalidates all handles to kept values, and refuses new ones to those of slot s:
// the results of that are about to be overwritten.
func (t *Trainer) invalidateKept(s *slot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept.slot%inFlight == s.index%inFlight { // they have the same results, see planned.outcome
		t.kept.program = nil
	}
	if !t.kept.valid {
		return nil
	}
	t.kept.valid = false
	return t.memory.arena.Reset(t.plan.regions[0][ir.Results].Region)
}
