package remat

import (
	"cmp"
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/kernels"
)

// Bounds of the search.
const (
	mostDrops  = 400 // activations that one greedy search drops
	mostRounds = 4   // greedy searches after the first, each of which adds a round
	mostKept   = 100 // dropped activations that polish tries to keep
	// fine is the number of instructions up to which the search drops and keeps activations one by
	// one. Every step looks at the whole program: in larger programs there are fewer steps, so that
	// no search takes longer than one of this size, and each drops several activations.
	fine = 2500
	// coarsest is the least number of steps.
	coarsest = 10
)

// steps returns the number of steps of a search: limit in a program of up to fine instructions,
// fewer in a larger one.
func (a *analysis) steps(limit int) int {
	n := len(a.p.Instrs)
	if n <= fine {
		return limit
	}
	share := float64(fine) / float64(n)
	return max(int(float64(limit)*share*share), coarsest)
}

// search returns the choice with the least extra work within the budget, or, if it finds none, the
// one with the lowest peak. It takes the best of a greedy search and of trees; while that exceeds
// the budget, it drops some of the repetitions in another round.
func (a *analysis) search(budget int64) choice {
	best := choice{rounds: []round{a.emptyRound()}}
	if a.measure(&best); best.peak <= budget {
		return best
	}
	limit := a.limit()
	try := func(x choice) {
		if x.work <= limit && x.better(&best, budget) {
			best = x
		}
	}
	a.greedyDrop(nil, budget, try)
	a.trees(budget, try)
	// The peak may now consist of repetitions that wait for their readers. Treat the rewritten
	// program as a new one, whose activations include the repetitions, and drop some of these.
	for range mostRounds {
		peak := best.peak
		if peak <= budget {
			break
		}
		d := a.p.CloneValues()
		analyseRewritten(d, a.o, a.apply(d, best.rounds)).greedyDrop(best.rounds, budget, try)
		if best.peak == peak {
			break
		}
	}
	return best
}

// limit returns the most extra work that a choice may have: the work of the program itself, so that
// a step takes at most twice as long.
func (a *analysis) limit() (work int64) {
	for _, w := range a.work {
		work += w
	}
	return work
}

// polish keeps dropped activations, the most expensive ones first, or drops them in fewer rounds,
// wherever that makes the choice better.
func (a *analysis) polish(best *choice, budget int64) {
	cost := a.costs(&best.rounds[0])
	dropped := slices.DeleteFunc(slices.Clone(a.saved), func(v kernels.Value) bool { return best.depth(v) == 0 })
	slices.SortStableFunc(dropped, func(v, w kernels.Value) int { return cmp.Compare(cost[w], cost[v]) })
	for _, v := range dropped[:min(len(dropped), a.steps(mostKept))] {
		for depth := range best.depth(v) {
			x := best.copied()
			for k := depth; k < len(x.rounds); k++ {
				x.rounds[k].drop[v] = false
			}
			x.trim()
			if a.measure(&x); x.better(best, budget) {
				*best = x
				break
			}
		}
	}
}

// greedyDrop drops one activation after the other, of those that idle at the peak, until the peak
// is within the budget or no activation idles there. It picks the highest score
//
//	bytes · instructions from the last reader in the forward pass to the first in the backward pass
//	───────────────────────────────────────────────────────────────────────────────────────────────
//	                              work to compute it again
//
// The drops form one round after the rounds in before. It calls try after each drop, since a choice
// before the last one may already be the best.
// Source: the score of Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, section 3.
func (a *analysis) greedyDrop(before []round, budget int64, try func(choice)) {
	x := a.emptyRound()
	steps := a.steps(mostDrops)
	each := 1 // activations dropped in a step
	if steps < mostDrops {
		each = (len(a.saved) + steps - 1) / steps
	}
	type scored struct {
		activation kernels.Value
		score      float64
	}
	var idle []scored
	for range min(len(a.saved), steps) {
		d := a.p.CloneValues()
		now := a.rewrite(d, &x)
		live, peak := schedule.Live(d, a.o, now.space)
		try(choice{append(slices.Clone(before), round{slices.Clone(x.drop), x.keep}), peak, now.extra})
		if peak <= budget {
			return
		}
		at := int32(slices.Index(live, peak))
		cost := a.costs(&x)
		idle = idle[:0]
		for _, v := range a.saved {
			if x.drop[a.origin[v]] {
				continue
			}
			until := now.positions[max(a.until[v], a.maker[v])]
			next := now.positions[a.first[v]]
			if until >= at || next <= at {
				continue
			}
			if score := float64(a.bytes[v]) * float64(next-until) / float64(max(cost[v], 1)); score > 0 {
				idle = append(idle, scored{v, score})
			}
		}
		if len(idle) == 0 {
			return
		}
		slices.SortStableFunc(idle, func(v, w scored) int { return cmp.Compare(w.score, v.score) })
		for _, v := range idle[:min(len(idle), each)] {
			x.drop[a.origin[v.activation]] = true
		}
	}
}
