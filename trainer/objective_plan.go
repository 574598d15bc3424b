package trainer

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// update returns the optimizer's part of a step of program k, under options o. weighted: its loss
// has weights.
func (p *planned) update(o *Options, k programKey, weighted bool) compile.Update {
	accumulates := o.Accumulate > 1
	o = p.objectiveOptions(o, k.objective)
	opt := o.optimizer()
	u := compile.Update{ClipNorm: o.Clip.Norm, Scaled: o.scaled(), GuardEach: o.Guard == GuardEach, Window: k.window,
		Norm: o.GradientNorm || o.Clip.Norm > 0, Keep: o.Keep, Ranks: o.ranks() > 1, SyncNorms: o.SyncBatchNorm,
		Shard: compile.Shard(o.Shard), Accumulates: accumulates}
	scaled := u.Factor(weighted) || u.ClipNorm > 0
	u.Rule = compile.Rule{Op: opt.Op(), States: opt.States, Attrs: opt.Attrs(o.Clip, scaled)}
	if len(o.Groups) > 0 {
		u.RuleOf = p.ruleOf(p.groupRules(o, k.objective), o.Clip, scaled)
	}
	u.Own = func(name string) bool { return p.trainedBefore(k.objective, name, k.stage) }
	u.Shares = p.several() && !accumulates
	return u
}

// isFirst reports whether no program of this plan was compiled before that trains the objective of
// k.
func (p *planned) isFirst(k programKey) bool {
	return len(p.order) == 0 || k.mode == compile.Train && !slices.ContainsFunc(p.order, func(o programKey) bool {
		return o.mode == compile.Train && o.objective == k.objective && o.stage == k.stage
	})
}

// trainings returns the programs that train and update a full batch, by objective, when all stages
// are unfrozen.
func (p *planned) trainings() (all []*ir.Program) {
	first := p.order[0]
	first.stage = len(p.opt.Unfreeze)
	for first.objective = range p.objectives(compile.Train) {
		all = append(all, p.programs[first])
	}
	return all
}

// trainingLive returns the most bytes that are live in a program that trains and updates a full
// batch.
func (p *planned) trainingLive() (live int64) {
	k := p.order[0]
	for k.stage = range len(p.opt.Unfreeze) + 1 {
		for k.objective = range p.objectives(compile.Train) {
			live = max(live, p.programs[k].Plan.Live)
		}
	}
	return live
}

// outcomesBytes returns the size of the host's copies of outcomes: one for each slot and objective,
// so that the host reads one while the next is copied.
func (p *planned) outcomesBytes() int64 {
	return 2 * int64(p.objectives(compile.Train)) * p.outcome(0).Size
}
