package trainer

import (
	"math"

	"github.com/evenkeel/evenkeel/internal/compile"
)

// add adds the numbers of the step in slot s, which has an outcome, to the sums of the pass, and sets
// last to them. A loss that is not finite, and what belongs to it, is left out of the sums.
func (p *epochPass) add(s *slot, o outcome) {
	last := Step{Objective: p.t.plan.nameOfStep(s), Epoch: p.epoch, Step: s.batch.Step + 1, Steps: p.total,
		Samples: s.rows, Accuracy: math.NaN(), Norm: math.NaN(), Uploaded: s.uploads.sampleBytes}
	last.Loss, last.Weight = p.objectives[s.objective].add(s, s.program.lossResult)
	for i, o := range s.program.others {
		p.objectives[i+1].add(s, o)
	}
	if s.program.hasAccuracy {
		correct := s.number(s.program.correct)
		if finite(last.Loss) || last.Weight == 0 {
			p.correct += correct
		}
		last.Accuracy = correct / last.Weight
	}
	if s.program.hasNorm {
		last.Norm = math.Sqrt(s.number(s.program.norm))
	}
	if o != nonFinite || finite(last.Loss) {
		p.addMetrics(s)
	}
	last.Metrics = p.stepMetrics.read(s)
	if p.mode == compile.Train {
		last.Number = p.number(s.objective, s.batch.Step)
		last.Rate = s.rate
		last.Updated, last.NonFinite = s.program.updates && o == succeeded, o == nonFinite
		last.Skipped = s.program.window.Updates() && o != succeeded
	}
	p.pending = s.objective + 1
	if s.last {
		p.samples += s.rows
		p.steps++
		p.pending = 0
	}
	p.last = last
}

// add adds the loss that the step in slot s has left at l. It returns the mean over the batch, and
// the sum of the weights.
func (sum *objectiveSums) add(s *slot, l lossResult) (loss, weight float64) {
	loss, weight = s.number(l.loss), float64(s.rows)
	if l.hasWeight { // loss is a sum over the rows
		weight = s.number(l.weight)
	}
	total := loss * weight
	if l.hasWeight {
		total, loss = loss, loss/weight
	}
	if sum.steps++; finite(total) {
		sum.loss += total
		sum.weight += weight
	}
	return loss, weight
}

// losses returns the numbers of all objectives so far.
func (p *epochPass) losses() []ObjectiveResult {
	all := make([]ObjectiveResult, len(p.objectives))
	for i, sum := range p.objectives {
		all[i] = ObjectiveResult{Name: p.t.plan.info.objectives[i].name, Loss: math.NaN(), Steps: sum.steps, Skipped: int(sum.skipped), NonFinite: int(sum.nonFinite)}
		if sum.steps > 0 {
			all[i].Loss = sum.loss / sum.weight
		}
	}
	return all
}

// countStep counts the step in slot s, which has an outcome.
func (t *Trainer) countStep(s *slot, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uploaded.Add(s.uploads.sampleBytes)
	if s.program.mode == compile.Train {
		t.counters.steps++
		if s.program.updates && o == succeeded {
			t.counters.updates[s.objective]++
		}
		if s.program.updates && (o == succeeded || o == overflowed) && t.plan.opt.scaled() {
			t.counters.scaling = t.plan.opt.LossScale.Next(t.counters.scaling, o == overflowed)
		}
		switch {
		case o == nonFinite:
			t.counters.nonFinite[s.objective]++
		case o != lost && s.program.window.Updates():
			t.counters.nonFinite[s.objective] = 0
		}
	}
	t.kept.program, t.kept.slot = s.program, s.index
}

// accuracy returns the share of correct outputs so far, NaN if the model does not count them.
func (p *epochPass) accuracy() float64 {
	if !p.source.full.hasAccuracy {
		return math.NaN()
	}
	return p.correct / p.objectives[0].weight
}

// result returns the numbers of the pass so far.
func (p *epochPass) result() Result {
	r := Result{Loss: math.NaN(), Accuracy: math.NaN(), Dropped: p.loader.Dropped(), Epoch: p.epoch}
	r.Metrics = p.metricResults()
	r.Losses = p.losses()
	if p.objectives != nil && p.objectives[0].steps > 0 {
		r.Loss, r.Accuracy, r.Weight = r.Losses[0].Loss, p.accuracy(), p.objectives[0].weight
	}
	for _, o := range r.Losses {
		r.Skipped += o.Skipped
		r.NonFinite += o.NonFinite
	}
	r.Samples, r.Steps, r.Uploaded, r.Input = p.samples, p.steps, p.uploaded, p.reader.stalls()
	return r
}
