package trainer

import (
	"math"

	"github.com/evenkeel/evenkeel/internal/compile"
)

// add adds the numbers of the step in slot s to the sums, and sets last to them.
func (p *epochPass) add(s *slot, loss float64, skipped bool) {
	rows := s.batch.Rows
	last := Step{Epoch: p.epoch, Step: p.steps + 1, Steps: p.total, Samples: rows,
		Loss: loss, Weight: float64(rows), Accuracy: math.NaN(), Norm: math.NaN(), Uploaded: s.program.sampleBytes}
	if s.program.hasWeight { // loss is a sum over the rows
		last.Weight = s.number(s.program.weight)
		last.Loss = loss / last.Weight
		p.loss += loss
	} else {
		p.loss += loss * float64(rows)
	}
	p.weight += last.Weight
	if s.program.hasAccuracy {
		correct := s.number(s.program.correct)
		p.correct += correct
		last.Accuracy = correct / last.Weight
	}
	if s.program.hasNorm {
		last.Norm = math.Sqrt(s.number(s.program.norm))
	}
	p.addMetrics(s)
	if p.mode == compile.Train {
		last.Number = p.stepsBefore + int64(s.batch.Step) + 1
		last.Rate = s.rate
		last.Skipped, last.Updated = skipped, s.program.updates && !skipped
	}
	p.samples += rows
	p.steps++
	p.last = last
}

// countStep counts a step that succeeded, or whose update was skipped: because gradients
// overflowed, or because it had no weight.
func (t *Trainer) countStep(s *slot, overflowed, weightless bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uploaded.Add(s.program.sampleBytes)
	if s.program.mode == compile.Train {
		t.counters.steps++
		if s.program.updates && !overflowed && !weightless {
			t.counters.updates++
		}
		if s.program.updates && !weightless && t.plan.opt.scaled() {
			t.counters.scaling = t.plan.opt.LossScale.Next(t.counters.scaling, overflowed)
		}
	}
	t.kept.program, t.kept.slot = s.program, s.index
}

// accuracy returns the share of correct outputs so far, NaN if the model does not count them.
func (p *epochPass) accuracy() float64 {
	if !p.source.full.hasAccuracy {
		return math.NaN()
	}
	return p.correct / p.weight
}

// result returns the numbers of the pass so far.
func (p *epochPass) result() Result {
	r := Result{Loss: math.NaN(), Accuracy: math.NaN(), Dropped: p.loader.Dropped(), Epoch: p.epoch}
	r.Metrics = p.metricResults()
	if p.samples > 0 {
		r.Loss, r.Accuracy = p.loss/p.weight, p.accuracy()
		r.Weight, r.Samples, r.Steps, r.Skipped, r.Uploaded = p.weight, p.samples, p.steps, int(p.skipped), p.uploaded
	}
	return r
}
