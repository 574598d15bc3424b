package trainer

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// outcome is what became of a finished step. All but succeeded leave parameters, statistics and the
// state of optimizers as they were.
type outcome uint8

const (
	succeeded  outcome = iota
	overflowed         // scaled gradients are not finite, and a smaller scale of the loss may prevent that
	weightless         // all weights of the window are 0
	nonFinite          // the loss or a gradient is not finite
	lost               // the step ends a window of which an earlier step was not finite
)

// outcomeOf returns the outcome of the step in slot s, whose loss is given.
func (p *epochPass) outcomeOf(s *slot, loss float64) outcome {
	status := int32(0)
	if len(s.status) > 0 {
		status = s.status[0]
	}
	switch {
	case status == 0 && finite(loss):
		return succeeded
	case !finite(loss):
		return nonFinite
	case p.objectives[s.objective].lost && s.program.window.Updates():
		return lost
	case s.program.checksWeight && status == ir.WeightCode:
		return weightless
	case s.program.updates && p.t.plan.opt.scaled() && status >= ir.FirstGradient && status < ir.FirstVariance &&
		p.t.counters.scaling.Scale > optim.MinScale:
		return overflowed
	}
	return nonFinite
}

// maySkip reports whether the update of a step of program may be skipped: because its scaled
// gradients overflow, because the weights of its window are all 0, or because it is not finite and
// Options.SkipNonFinite is set. The next step depends on it. Ranks of a group must agree whether there
// is one at all: if one rank finds an error before it submits the next step, all must.
func (p *epochPass) maySkip(program *boundProgram) bool {
	opt := &p.t.plan.opt
	return program.checksWeight || program.updates && opt.scaled() || p.mode == compile.Train && (opt.SkipNonFinite > 0 || opt.ranks() > 1)
}

// skips reports whether training goes on after the step in slot s, which has an outcome. Indices
// outside a table, whose codes are negative, are mistakes in the data.
func (p *epochPass) skips(s *slot, o outcome) bool {
	if o != nonFinite {
		return true
	}
	return p.mode == compile.Train && s.worst() != kernels.VerdictIndex && p.t.counters.nonFinite[s.objective] < p.t.plan.opt.SkipNonFinite
}

// skipWindow records that a step of outcome o is not part of its window. The sums of gradients then
// contain numbers of that step, so that the window has no update: see
// writeControls.
func (sum *objectiveSums) skipWindow(s *slot, o outcome) {
	if o == nonFinite {
		sum.nonFinite++
		sum.lost = true
	}
	if s.program.window.Updates() {
		if o != succeeded {
			sum.skipped++
		}
		sum.lost = false
	}
}

// tooMany adds to the error of a step that steps before it were skipped.
func (p *epochPass) tooMany(s *slot, err error) error {
	if n := p.t.counters.nonFinite[s.objective]; p.mode == compile.Train && n > 0 {
		return fmt.Errorf("%w (Options.SkipNonFinite has skipped the %d steps before)", err, n)
	}
	return err
}
