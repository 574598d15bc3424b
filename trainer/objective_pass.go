package trainer

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
)

// objectiveSums are sums over the steps of one objective in a pass.
type objectiveSums struct {
	loss    float64 // over samples, each times its weight
	weight  float64 // of the samples; a sample without a weight counts as 1
	steps   int
	skipped int64 // updates that overflowed, or whose weights were all 0, or of windows that are lost
	// Of Options.SkipNonFinite: steps that were not finite, and whether one of the present window was.
	nonFinite int64
	lost      bool
}

// batch has the steps of all objectives on batch b, those that are left if it was read again. It
// returns the slot of the step that is in flight afterwards, or nil; before is that of the step
// before.
func (p *epochPass) batch(ctx context.Context, b dataloader.Batch, before *slot) (_ *slot, err error) {
	if b.Rows == 0 && p.mode != compile.Train {
		return before, p.skipIdle(b)
	}
	first := p.objectiveAfter(p.resume-1, b.Step)
	p.resume = 0
	for i := first; i >= 0; i = p.objectiveAfter(i, b.Step) {
		s := p.t.slots[b.Slot].of(i)
		s.first, s.last = i == first, p.objectiveAfter(i, b.Step) < 0
		again := false
		if before, again, err = p.step(ctx, s, b, before); again || err != nil {
			return nil, err
		}
	}
	return before, nil
}

// step submits the step of batch b in slot s, and collects the one before it, which is in slot
// before unless that is nil. It returns the slot of the step that is in flight afterwards, or nil.
// again: the body of Steps has used the slots, so that the batch must be read again; nothing is in
// flight.
func (p *epochPass) step(ctx context.Context, s *slot, b dataloader.Batch, before *slot) (after *slot, again bool, err error) {
	// Kept values of the same slot are read before the next step writes them.
	if before != nil && before.index == s.index && len(p.t.plan.opt.Keep) > 0 {
		if again, err = p.collectFirst(ctx, before); again || err != nil {
			return nil, again, err
		}
		before = nil
	}
	// Whatever fails from here on, the previous step is collected first: it succeeded or has
	// an error of its own.
	if err := p.selectProgram(s, b); err != nil {
		return nil, false, errors.Join(p.collect(ctx, before), fmt.Errorf("step %d: %w", b.Step, err))
	}
	if before != nil && (p.body != nil || p.maySkip(before.program)) {
		if again, err = p.collectFirst(ctx, before); again || err != nil {
			return nil, again, err
		}
		before = nil
	}
	s.averages = false
	if p.mode == compile.Train {
		if err := p.writeControls(s); err != nil {
			if failed := p.collect(ctx, before); failed != nil {
				return nil, false, errors.Join(failed, fmt.Errorf("step %d: %w", b.Step, err))
			}
			return nil, false, fmt.Errorf("step %d: %w", b.Step, p.agreeOnEnd(err))
		}
	}
	if err := p.submit(s); err != nil {
		return nil, false, errors.Join(p.collect(ctx, before), fmt.Errorf("step %d: %w", b.Step, err))
	}
	if err := p.collect(ctx, before); err != nil {
		return nil, false, err
	}
	// Where steps are short, or run in the caller's goroutine, this one may be done already:
	// its slot then goes back to the loader without waiting for the next batch.
	if !s.ready.Done() {
		return s, false, nil
	}
	last := s.last
	if err := p.collect(ctx, s); err != nil {
		return nil, false, err
	}
	return nil, !last && !p.reader.isOpen(), nil
}

// collectFirst collects the step in slot s before another one is submitted. again: see step.
func (p *epochPass) collectFirst(ctx context.Context, s *slot) (again bool, err error) {
	if err := p.collect(ctx, s); err != nil {
		return false, err
	}
	if !p.reader.isOpen() {
		return true, nil
	}
	// Without a batch on the device, next would have returned this error.
	if p.body != nil {
		return false, ctx.Err()
	}
	return false, nil
}

// objectiveAfter returns the first objective after i that has a step in a batch of an epoch, -1 if
// there is none. The batches of an evaluation have one step, that of objective 0.
func (p *epochPass) objectiveAfter(i, batch int) int {
	for i++; i < p.t.plan.objectives(p.mode); i++ {
		if p.mode != compile.Train || p.t.plan.runs(i, batch) {
			return i
		}
	}
	return -1
}

// number returns the number of the step of an objective in a batch of the epoch, counted from 1
// since New.
func (p *epochPass) number(objective, batch int) int64 {
	if p.ds == nil { // a step of Trainer.Step, after all others
		return p.stepsBefore + 1
	}
	plan, before := p.t.plan, 0
	for i := range plan.objectives(p.mode) {
		before += plan.runsBefore(i, batch)
		if i < objective && plan.runs(i, batch) {
			before++
		}
	}
	return p.stepsBefore + int64(before) + 1
}

// loss returns the loss of the step in slot s; of several, one that is not finite.
func (s *slot) loss() float64 {
	loss := s.number(s.program.loss)
	for _, o := range s.program.others {
		if l := s.number(o.loss); !finite(l) {
			loss = l
		}
	}
	return loss
}

// nameOfStep returns the name of the objective of the step in slot s.
func (p *planned) nameOfStep(s *slot) string {
	if s.program.mode != compile.Train {
		return ""
	}
	return p.info.objectives[s.objective].name
}
