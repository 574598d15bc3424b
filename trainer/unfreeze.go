package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile"
)

// Unfreeze begins the next stage of Options.Unfreeze: from the next Fit on, the parameters that it
// names are trained too. All optimizers start anew: their state is zero, and the next update is
// number 1 of each, also for schedules. So training goes on as that of a trainer made with the
// smaller Options.Frozen and with these parameters. Epochs and steps count on, and the loss scale
// stays.
//
// It allocates no device memory and compiles nothing. It returns an error that wraps ErrOption if
// all stages are unfrozen, and ErrBusy while Fit, Steps or Evaluate runs, also in the body of
// Steps.
func (t *Trainer) Unfreeze(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if err := t.use().acquire(ctx); err != nil {
		return fmt.Errorf("unfreeze: %w", err)
	}
	defer t.usage.release()
	if n := len(t.plan.opt.Unfreeze); t.plan.stage == n {
		return fmt.Errorf("unfreeze: all %d stages of Options.Unfreeze are unfrozen: %w", n, ErrOption)
	}
	if t.usage.pausedPass() != nil {
		return fmt.Errorf("unfreeze: the trainer is %w: the body of Steps is running", ErrBusy)
	}
	if err := t.checkWindow("unfreeze"); err != nil {
		return err
	}
	if err := t.checkUnfinished("unfreeze", false); err != nil {
		return err
	}
	t.own.changed = true
	if err := errors.Join(t.dropTrained(), t.memory.clearState(t.streams.compute)); err != nil {
		return fmt.Errorf("unfreeze: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plan.stage++
	t.plan.opt.logger().Info("unfreeze", "stage", t.plan.stage)
	for i, n := range t.counters.updates {
		t.counters.before += n
		t.counters.updates[i] = 0
	}
	return nil
}

// dropTrained drops the programs that train short batches: they belong to a stage.
func (t *Trainer) dropTrained() error {
	var errs []error
	t.short = slices.DeleteFunc(t.short, func(k programKey) bool {
		if k.mode != compile.Train {
			return false
		}
		errs = append(errs, t.dropShort(k))
		return true
	})
	return errors.Join(errs...)
}

// key returns the key of a program in the present stage.
func (p *planned) key(mode compile.Mode, rows, dataset int, w compile.Window, objective int) programKey {
	k := programKey{mode: mode, rows: rows, dataset: dataset, window: w, objective: objective}
	if mode == compile.Train {
		k.stage = p.stage
	}
	return k
}

// checkUnfreeze returns an error for each pattern of Options.Unfreeze that no frozen parameter
// matches.
func (p *planned) checkUnfreeze() error {
	bad := &mistakes{class: ErrOption}
	for stage, patterns := range p.opt.Unfreeze {
		if len(patterns) == 0 {
			bad.addf("unfreeze: stage %d has no pattern", stage)
		}
		for _, pattern := range patterns {
			if !slices.ContainsFunc(p.info.params, func(m modelParam) bool {
				return !slices.Contains(p.info.frozen, m.name) && matches(pattern, m.name) && p.frozen(m.name, stage)
			}) {
				bad.addf("unfreeze: stage %d: no frozen parameter matches %q", stage, pattern)
			}
		}
	}
	return errors.Join(bad.errs...)
}
