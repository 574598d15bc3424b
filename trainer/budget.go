package trainer

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Limits of the search for advice in a CapacityError, in the units of workOf. A unit takes
// 5 to 10 µs of one core.
const (
	searchWork = 50_000 // of the search, in addition to two times the work of the refused plan
	searchCost = 8_000  // of a search for offsets that did not prove its result to be the best
	searchStep = 4      // combinations that are planned between two looks at the budget
	// Plans with these options take the time of about so many more: recomputation is a search of its
	// own, and offloading adds transfers.
	autoPlans    = 3
	offloadPlans = 5
)

// workOf estimates the work of compiling a program: the time to schedule grows faster than the
// number of instructions. It counts no time, so that a refusal has the same text on every machine.
func workOf(prog *ir.Program) int64 {
	n := int64(len(prog.Instrs))
	work := n + n*n/64
	if prog.Recomputation != nil {
		work *= 3
	}
	if !prog.Plan.Optimal {
		work += searchCost
	}
	return work
}

// searchBudget bounds the work of a search for what would fit.
type searchBudget struct {
	cache *programCache
	end   int64 // work of the cache at which the search ends
	each  int64 // work of one plan
	spent bool  // something was not tried

	promised int64 // work of the plans that affords has accepted since the last call of begin
}

// newBudget returns a budget for searching other options for p.
func (p *planned) newBudget() *searchBudget {
	var each int64
	for _, k := range p.order {
		each += 2 * workOf(p.programs[k]) // with the program of one row
	}
	return &searchBudget{cache: p.cache, end: p.cache.worked() + searchWork + 2*each, each: each}
}

// begin starts a list of plans that may be made at once: affords accepts or refuses each of them.
func (b *searchBudget) begin() {
	if b != nil {
		b.promised = 0
	}
}

// affordsOne is affords for a plan that is made alone.
func (b *searchBudget) affordsOne(o *Options) bool {
	b.begin()
	return b.affords(o)
}

// affords reports whether a plan with these options, which is not made yet, is within the budget,
// after those of the list that it has accepted. A nil budget has no limit. It is for one goroutine.
func (b *searchBudget) affords(o *Options) bool {
	if b == nil {
		return true
	}
	each := b.each
	if o.Recompute.Auto {
		each += autoPlans * b.each
	}
	if o.Offload.any() {
		each += offloadPlans * b.each
	}
	if b.cache.worked()+b.promised+each <= b.end {
		b.promised += each
		return true
	}
	b.spent = true
	return false
}

// leastBytes returns a number of bytes that every plan of the model with options o needs, whatever
// its batch: the trained parameters of p, what the optimizer keeps for them, and gradients that are
// kept. It is arithmetic: nothing is compiled. An offloaded parameter is copied as a whole before
// it is read.
func (p *planned) leastBytes(o *Options) (bytes int64) {
	offload := compile.Offload(o.Offload)
	k := programKey{mode: compile.Train, stage: len(p.opt.Unfreeze)}
	if o.Accumulate > 1 {
		k.window = compile.Last
	}
	// Gradients that objectives share are live at once only within one of them.
	var copied, shared int64 // the largest copy of an offloaded parameter, and the most gradients of an objective
	counted, averaged := make(map[string]bool), make(map[string]bool)
	for i, prog := range p.trainings() {
		k.objective = i
		update, gradients := p.update(o, k, false), int64(0)
		for _, name := range prog.Trained {
			spec := p.parameter(name).Spec
			n := arena.Round(spec.Bytes())
			switch {
			case offload.Offloads(name, spec):
				copied = max(copied, n)
			case !counted[name]:
				bytes += n
			}
			counted[name] = true
			if update.KeepsGradients() {
				gradients += n
			}
			if !o.Offload.State {
				if o.Average.On() && !averaged[name] {
					bytes += n
				}
				averaged[name] = true
				for _, s := range update.RuleFor(name, spec).States(spec) {
					bytes += arena.Round(s.Bytes())
				}
			}
		}
		if update.Shares {
			shared = max(shared, gradients)
		} else {
			bytes += gradients
		}
	}
	// The copy is in scratch, and so are shared gradients, but at other times.
	return bytes + max(copied, shared)
}

// without returns some without the combinations that cannot fit in limit bytes.
func (p *planned) without(some []combination, limit int64) []combination {
	return slices.DeleteFunc(some, func(c combination) bool { return p.leastBytes(&c.opt) > limit })
}
