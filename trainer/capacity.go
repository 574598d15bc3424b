package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// CapacityError reports a plan that does not fit, and what would. It wraps arena.ErrCapacity.
type CapacityError struct {
	Need, Have int64 // bytes that the plan needs, and bytes that it may use
	// Total is the whole memory of the device, in bytes, if its free memory was the limit. It is 0
	// if Options.Memory was.
	Total     int64
	Batch     int // Batch of the plan that does not fit
	EvalBatch int // EvalBatch of the plan that does not fit, if more than Batch, else 0

	// Fits and FitsEval are the largest Batch and EvalBatch that would fit with all other options
	// unchanged. If both are above 0, reduce both options to them. If one is, reduce that option
	// and leave the other as it is. Both 0: no reduction was found; the message says why. See
	// Partial.
	Fits, FitsEval int
	// Slots is that of the plan. FitsSlots is the largest number of them that would fit with all other
	// options unchanged, Batch too, or 0 if not even the fewest would.
	Slots, FitsSlots int
	// Change describes a change of other options that would fit and costs little time: another
	// optimizer, guard, recomputation, precision, offloading, or several smaller steps for each
	// update. The change keeps Batch·Accumulate, the number of samples in an update, the same.
	// Options are the options with that change, ready for New. Change is empty if no change was
	// found.
	Change  string
	Options Options
	// Partial is set if the search for what would fit was ended because it has a fixed budget of
	// work. Then a batch larger than Fits, or a change cheaper than Change, may fit. Even if Fits is
	// 0 or Change is empty, a batch or a change that fits may exist. MaxBatch and Explore search
	// without a limit.
	Partial bool
	Plan    *report.Plan // the plan that does not fit

	unknown     error // why Fits could not be computed
	batchesLeft bool  // the search for Fits was ended
}

func (e *CapacityError) Error() string {
	var s strings.Builder
	s.WriteString(layout.Shortage(e.Plan, e.Need, e.Have, e.Total))
	s.WriteString(": ")
	if e.FitsSlots > 0 {
		fmt.Fprintf(&s, "Slots %d instead of %d would fit; ", e.FitsSlots, e.Slots)
	}
	switch {
	case e.unknown != nil:
		fmt.Fprintf(&s, "which batch would fit is not known: %v", e.unknown)
	case e.Fits > 0 && e.FitsEval > 0:
		fmt.Fprintf(&s, "batch %d instead of %d would fit with EvalBatch %d instead of %d",
			e.Fits, e.Batch, e.FitsEval, e.EvalBatch)
	case e.Fits > 0:
		fmt.Fprintf(&s, "batch %d instead of %d would fit", e.Fits, e.Batch)
	case e.FitsEval > 0:
		fmt.Fprintf(&s, "EvalBatch %d instead of %d would fit", e.FitsEval, e.EvalBatch)
	case e.batchesLeft:
		s.WriteString("no batch was found that would fit")
	default:
		s.WriteString("not even the smallest batch would fit")
	}
	if e.Slots > inFlight && e.unknown == nil {
		fmt.Fprintf(&s, " with Slots %d", e.Slots)
	}
	if e.Change != "" {
		fmt.Fprintf(&s, "; %s", e.Change)
	}
	if e.Partial {
		s.WriteString("; the search for what fits was ended to be quick: trainer.MaxBatch and trainer.Explore search on")
	}
	return s.String()
}

// Unwrap returns arena.ErrCapacity.
func (e *CapacityError) Unwrap() error { return arena.ErrCapacity }

// limit returns the bytes that a plan may use: Memory, or what is free on Device if Memory is 0. In
// the second case total is the memory of the device, else 0.
func (o *Options) limit() (limit, total int64, err error) {
	switch {
	case o.Memory < 0:
		return 0, 0, fmt.Errorf("memory %d bytes: must not be negative: %w", o.Memory, ErrOption)
	case o.Memory > 0:
		return o.Memory, 0, nil
	case o.Device == nil:
		return 0, 0, fmt.Errorf("neither Memory nor Device is set, so there is no limit: %w", ErrOption)
	}
	return layout.Available(o.Device, 0)
}

// checkCapacity returns a *CapacityError if the plan needs more than Options.Memory or than the
// device has free.
func (p *planned) checkCapacity(ctx context.Context) error {
	have, total, err := layout.Available(p.opt.Device, p.opt.Memory)
	if err != nil || p.layout.Total() <= have {
		return err
	}
	return p.capacityError(ctx, have, total)
}

// capacityError returns the error about a plan that needs more than limit bytes, with what would
// fit. total is that of CapacityError. A done ctx ends the search for what would fit.
func (p *planned) capacityError(ctx context.Context, limit, total int64) error {
	e := &CapacityError{Need: p.layout.Total(), Have: limit, Total: total, Batch: p.opt.Batch, Plan: p.report()}
	if p.opt.EvalBatch > p.opt.Batch {
		e.EvalBatch = p.opt.EvalBatch
	}
	e.Slots = p.opt.slots()
	e.FitsSlots = fittingSlots(e.Slots, e.Plan.Category("slot 0"), e.Need-e.Have)
	// If the search for a batch fails, the message still names the missing bytes, and then the
	// error. If ctx is done, the caller wants no message but the end.
	p.cache.complete = false // what would fit is not trained
	var err error
	budget := p.newBudget()
	if e.Fits, e.FitsEval, e.unknown = p.largestFitting(ctx, limit, budget); e.unknown != nil && ctx.Err() != nil {
		return e.unknown
	}
	e.batchesLeft = budget.spent
	if e.Change, e.Options, err = p.cheapestChange(ctx, limit, budget); err != nil {
		return err
	}
	e.Partial = budget.spent
	return e
}

// fittingSlots returns the largest number of slots, below the given one, that leaves out as many
// bytes as are missing, or 0. Each slot takes as many bytes, and nothing else depends on their number.
func fittingSlots(slots int, each, missing int64) int {
	if each == 0 {
		return 0
	}
	fewer := (missing + each - 1) / each
	fewer += fewer % inFlight // the number stays even
	return int(max(0, int64(slots)-fewer))
}

// largestFitting returns the batches that CapacityError names, the first of these that fit: the
// largest EvalBatch with Batch as it is; the largest Batch with EvalBatch as it is; the largest
// Batch with an EvalBatch no larger. 0 leaves one as it is, or means that none fits.
func (p *planned) largestFitting(ctx context.Context, limit int64, budget *searchBudget) (batch, eval int, err error) {
	opt := p.opt
	if p.leastBytes(&opt) > limit {
		return 0, 0, nil
	}
	// A smaller EvalBatch is the first choice, since it changes no result of training. None below
	// Batch is tried: there training decides how large slots and results are.
	if opt.EvalBatch > opt.Batch {
		fits := func(rows int) (bool, error) {
			opt := opt
			if opt.EvalBatch = rows; !budget.affordsOne(&opt) {
				return false, nil
			}
			q, err := newPlanned(ctx, p.model, opt, p.cache)
			return err == nil && q.layout.Total() <= limit, err
		}
		if ok, err := fits(opt.Batch); err != nil {
			return 0, 0, err
		} else if ok {
			eval, err = largest(opt.Batch, opt.EvalBatch-1, fits)
			return 0, eval, err
		}
	}
	if opt.Batch == 1 {
		return 0, 0, nil
	}
	// A smaller batch of training, with evaluation as it is, then with evaluation as small.
	smaller := func() error {
		e, known := p.explorer(limit), sizedBatch{p.opt.Batch, p.layout.Total()}
		if opt.EvalBatch != p.opt.EvalBatch {
			known = sizedBatch{}
		}
		e.MaxBatch, e.budget = opt.Batch-1, budget
		batch, _, err = e.largest(ctx, opt, known)
		if errors.Is(err, frontend.ErrRows) { // the only smaller batch is 1, which batch normalization refuses
			return nil
		}
		return err
	}
	if err := smaller(); err != nil || batch > 0 || opt.EvalBatch <= opt.Batch {
		return batch, 0, err
	}
	opt.EvalBatch = 0
	err = smaller()
	return batch, batch, err
}

// MaxBatch returns the largest batch, up to most, whose plan fits in Options.Memory, or in the free
// memory of Options.Device if Memory is 0. It ignores Options.Batch. EvalBatch stays as it is if
// it is set, else it is the batch that is tried. If the model function returns an error for a batch
// that is tried, MaxBatch returns that error. If no batch fits, it returns a *CapacityError.
// MaxBatch allocates no device memory and trains nothing. Cancelling ctx stops the search.
func MaxBatch(ctx context.Context, model ModelFunc, opt Options, most int) (int, error) {
	if ctx == nil {
		return 0, errNilContext
	}
	if most < 1 {
		return 0, fmt.Errorf("largest batch %d: must be 1 or more: %w", most, ErrOption)
	}
	most = min(most, math.MaxInt32)
	limit, total, err := opt.limit()
	if err != nil {
		return 0, err
	}
	e := &explorer{ExploreOptions: ExploreOptions{MaxBatch: most}, model: model, cache: new(programCache), limit: limit}
	n, least, err := e.largest(ctx, opt, sizedBatch{})
	if err == nil && n == 0 {
		err = least.capacityError(ctx, limit, total)
	}
	return n, err
}

// largest returns the largest n up to most for which fits holds, given that it holds for least. It
// doubles n, then bisects. fits must hold for every n below one for which it holds. Example: if 11
// is the result, least is 1 and most is large, it tries 2, 4, 8, 16, 12, 10 and 11.
func largest(least, most int, fits func(int) (bool, error)) (int, error) {
	// Invariant: good fits, and bad does not or is above most.
	good, bad := least, most+1
	for n := 2 * least; bad-good > 1; {
		ok, err := fits(n)
		switch {
		case err != nil:
			return 0, err
		case ok:
			good = n
		default:
			bad = n
		}
		if n = 2 * good; n >= bad {
			n = good + (bad-good)/2
		}
	}
	return good, nil
}
