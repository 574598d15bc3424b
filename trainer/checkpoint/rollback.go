package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/trainer"
)

// Rollback goes on from the last checkpoint after a *trainer.NonFiniteError that wraps
// trainer.ErrNonFinite: a loss or gradients that are not finite. What was trained since then is
// lost. With the same bits the fault would occur again, so that training goes on in another order
// of the samples, or at a lower rate, or both. Before the first step a checkpoint is taken if the
// folder has none.
type Rollback struct {
	// Times is how often a folder rolls back, counted from Open. The fault after that is the error
	// of the loop. Default 0: the first one is.
	Times int
	// RateFactor, at most 1, multiplies the learning rate from then on, each time: 0.5 halves it.
	// Default 0: it stays.
	RateFactor float64
	// SameOrder keeps the order of samples, which needs a RateFactor. Default: each time the
	// samples that follow have another order.
	SameOrder bool
}

// check returns an error for options that are outside their range.
func (r *Rollback) check() error {
	switch {
	case r.Times < 0:
		return fmt.Errorf("Rollback.Times %d must not be negative: %w", r.Times, trainer.ErrOption)
	case !(r.RateFactor >= 0 && r.RateFactor <= 1):
		return fmt.Errorf("Rollback.RateFactor %v must be above 0 and at most 1, or 0 for 1: %w", r.RateFactor, trainer.ErrOption)
	case r.SameOrder && (r.RateFactor == 0 || r.RateFactor == 1):
		return fmt.Errorf("Rollback.SameOrder without a RateFactor repeats the fault: set one of them: %w", trainer.ErrOption)
	}
	return nil
}

// rollback restores t from the newest checkpoint after a fault in the numbers. It returns false,
// and the error of the loop, if the fault is another one or there were too many.
func (f *Folder) rollback(ctx context.Context, t *trainer.Trainer, fault error) (bool, error) {
	if !errors.Is(fault, trainer.ErrNonFinite) || f.rollbacks >= f.opt.Rollback.Times {
		return false, fault
	}
	f.rollbacks++
	// Both count from what the fault occurred with, also if the checkpoint is older than the last
	// rollback: else that would be repeated.
	order, rate := f.order+1, f.rate*cmp.Or(f.opt.Rollback.RateFactor, 1)
	r, err := f.resume(ctx, t, func(saved trainer.Info) (opt trainer.RestoreOptions) {
		opt.RateFactor = rate / saved.RateFactor
		if !f.opt.Rollback.SameOrder {
			opt.Order = order
		}
		return opt
	})
	switch {
	case err != nil:
		return false, errors.Join(fault, fmt.Errorf("roll back: %w", err))
	case !r.Found:
		return false, errors.Join(fault, fmt.Errorf("roll back: no checkpoint in %s", f.dir))
	}
	f.begun = true
	f.schedule.start(r.From.Step, int64(r.Position.Epoch), f.now())
	f.mu.Lock()
	f.stats.RolledBack++
	f.mu.Unlock()
	f.log.Warn("rolled back after a fault in the numbers", "name", r.From.Name, "time", f.rollbacks, "of", f.opt.Rollback.Times, "error", fault)
	return true, nil
}
