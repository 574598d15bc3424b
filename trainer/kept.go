package trainer

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// keptValues locates the kept values of the last finished step.
type keptValues struct {
	program *boundProgram // nil if there is no such step, or its values are about to be overwritten
	slot    int
	valid   bool // Kept has returned a handle that is not stale
}

// Kept returns a handle to the value of a node of Options.Keep from the step that was reported
// last, and its type and shape, whose first dimension is that step's batch. The handle is valid
// until the next step begins: use it inside Options.Progress or after a pass. Later it returns
// arena.ErrStale, as Kept does before the first step.
func (t *Trainer) Kept(name string) (arena.Handle, kernels.Spec, error) {
	if t.use().isClosed() {
		return arena.Handle{}, kernels.Spec{}, errClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	none, noSpec := arena.Handle{}, kernels.Spec{}
	if !slices.Contains(t.plan.opt.Keep, name) {
		return none, noSpec, fmt.Errorf("%q is not kept: add it to Options.Keep: %w", name, ErrOption)
	}
	if t.kept.program == nil {
		return none, noSpec, fmt.Errorf("%q: no step has run yet: %w", name, arena.ErrStale)
	}
	v, ok := t.kept.program.ir.Result(name)
	if !ok {
		return none, noSpec, fmt.Errorf("%q: the last step does not compute it: %w", name, arena.ErrStale)
	}
	t.kept.valid = true
	h, err := t.memory.arena.Handle(t.memory.ref(v.Ref, t.kept.slot), name)
	return h, v.Spec, err
}

// invalidateKept invalidates all handles to kept values, and refuses new ones to those of slot s:
// that is about to be overwritten.
func (t *Trainer) invalidateKept(s *slot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept.slot == s.index {
		t.kept.program = nil
	}
	if !t.kept.valid {
		return nil
	}
	t.kept.valid = false
	return t.memory.arena.Reset(t.plan.regions[0][ir.Results].Region)
}
