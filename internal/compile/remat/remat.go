// Package remat decides which activations a training step computes again for the backward pass
// instead of keeping them (rematerialization), and rewrites the program so.
//
// [Run] searches a choice of activations whose peak is within a budget of bytes, in three steps:
//
//	greedyDrop   drop one activation after the other (search.go)
//	trees        cut the forward pass at checkpoints, by dynamic programming (tree.go)
//	polish       keep activations again that need not be dropped (search.go)
//
// It takes the choice with the least extra work within the budget. Where none is within it, it
// takes the lowest peak that it has found. No bits change.
//
// Here an activation is a value of the forward pass that the backward pass reads; to drop it is to
// let the backward pass read a second computation of it.
package remat

import (
	"cmp"
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Goal selects the activations that a training program computes again.
type Goal struct {
	Owners []string // all that belong to these layers and scopes; none: the search chooses
	Budget int64    // bytes of scratch that the peak should not exceed, at the least extra time; 0: no search
}

// Run lets instructions of the backward pass read a second computation of dropped activations,
// right before the first such reader. Dropout draws by seed, step and layer, so its second mask
// equals the first; instructions with an effect, and those that run on the host, are never
// repeated.
//
//	y = f x                 y = f x
//	…               ──►     …
//	dx = g y dy             y' = f x
//	                        dx = g y' dy
//
// A later round may drop y', too. If y' is first an operand of another recomputation and is read by
// g only much later, y is computed a third time, right before g.
//
// Where o.Like has as many values and instructions as p, which for one model and mode means the
// same ones, p drops what o.Like drops. Copies of offloaded parameters that both the forward and
// the backward pass read are prefetched once more in any case, except those of the last layer. Run
// records its choice in p.
func Run(p *ir.Program, goal Goal, o schedule.Options) {
	if goal.Budget <= 0 && len(goal.Owners) == 0 {
		refetch(p, o)
		return
	}
	built := slices.Clone(p.Instrs)
	if o.Like != nil && goal.Budget > 0 {
		// The memory of the larger batch is there. An eighth is left for gaps between buffers.
		goal.Budget = max(goal.Budget, o.Like.Plan.Bytes-o.Like.Plan.Bytes/8)
	}
	if p.Recomputation = inherited(p, o.Like); p.Recomputation == nil {
		p.Recomputation = choose(p, built, goal, o)
	}
	if len(p.Recomputation.Rounds) == 0 {
		p.Instrs = built
		refetch(p, o)
		return
	}
	p.Instrs = schedule.Reorder(built, p.Recomputation.Order)
	a := analyse(p, o)
	rounds := make([]round, len(p.Recomputation.Rounds))
	for k, r := range p.Recomputation.Rounds {
		rounds[k] = a.emptyRound()
		for _, v := range r.Dropped {
			rounds[k].drop[v] = true
		}
		for _, v := range r.Kept {
			rounds[k].keep[v] = true
		}
	}
	a.apply(p, rounds)
}

// inherited returns what the program for a larger batch computes again; nil unless p has as many
// values and instructions.
func inherited(p, like *ir.Program) *ir.Recomputation {
	if like == nil || like.Recomputation == nil || like.Recomputation.Values != len(p.Values) || len(like.Recomputation.Order) != len(p.Instrs) {
		return nil
	}
	return like.Recomputation
}

// choose returns the best choice that it finds in any of the orders that it tries: the order
// decides which values are live together. built is p's instructions in the order in which they were
// built; the caller restores p.Instrs, which choose reorders.
func choose(p *ir.Program, built []ir.Instr, goal Goal, o schedule.Options) *ir.Recomputation {
	var best []int32
	var least choice
	// Polishing is slow: only the best choice of all orders is polished.
	for _, order := range orders(p, o) {
		p.Instrs = schedule.Reorder(built, order)
		a := analyse(p, o)
		var x choice
		if len(goal.Owners) > 0 {
			x.rounds = []round{a.emptyRound()}
			for _, v := range a.saved {
				x.rounds[0].drop[v] = ir.Selects(goal.Owners, p.Values[v].Owner)
			}
			a.measure(&x)
		} else {
			x = a.search(goal.Budget)
		}
		if best == nil || x.better(&least, goal.Budget) {
			best, least = order, x
		}
	}
	p.Instrs = schedule.Reorder(built, best)
	if a := analyse(p, o); len(goal.Owners) == 0 {
		a.polish(&least, goal.Budget)
	}
	return &ir.Recomputation{Values: len(p.Values), Order: best, Rounds: least.describe()}
}

// Orders in which dropping is tried, besides the one in which the instructions were built.
const (
	bestOrders      = 2 // with the lowest peaks where nothing is dropped
	leastPeakOrders = 2 // for which trees predict the lowest peaks (tree.leastPeak)
)

// orders returns the orders in which dropping is tried: with values dropped, another order may be
// the best.
func orders(p *ir.Program, o schedule.Options) [][]int32 {
	d := p.CloneValues()
	fresh := o
	fresh.Like = nil
	schedule.Alias(d, o.Views)
	found := schedule.Candidates(d, fresh)
	if o.Scheduler != nil {
		return [][]int32{found[0].Order}
	}
	all := [][]int32{schedule.Sequence(len(p.Instrs))}
	add := func(some []schedule.Candidate) {
		for _, f := range some {
			if !slices.ContainsFunc(all, func(order []int32) bool { return slices.Equal(order, f.Order) }) {
				all = append(all, f.Order)
			}
		}
	}
	add(found[:min(bestOrders, len(found))])
	// leastPeak needs no search, so it is known for all orders.
	work, space := works(p, o), schedule.Workspaces(p, o.Device)
	now := rewritten{origin: identity(p), work: make([]int64, len(work)), space: make([]int64, len(space))}
	for k := range found {
		d := *p
		d.Instrs = schedule.Reorder(p.Instrs, found[k].Order)
		for at, i := range found[k].Order {
			now.work[at], now.space[at] = work[i], space[i]
		}
		if t := analyseRewritten(&d, o, now).cuts(); t != nil {
			found[k].Peak = t.leastPeak()
		}
	}
	slices.SortStableFunc(found, func(a, b schedule.Candidate) int { return cmp.Compare(a.Peak, b.Peak) })
	add(found[:min(leastPeakOrders, len(found))])
	return all
}

// refetch lets the backward pass prefetch offloaded parameters once more, where no activation is
// computed again.
func refetch(p *ir.Program, o schedule.Options) {
	if !slices.ContainsFunc(p.Instrs, func(in ir.Instr) bool { return in.Op == kernels.Prefetch }) {
		return
	}
	if a := analyse(p, o); slices.Contains(a.refetched, true) {
		a.apply(p, []round{a.emptyRound()})
	}
}

// round lists the values that the backward pass reads a second computation of, and values that are
// kept as starting points of such computations. Both are indexed by root value of the program
// before the first round. If an earlier round has recomputed y as y', then drop[y] of this round
// means: drop y', and compute it again as y".
type round struct{ drop, keep []bool }

// choice is the rounds of recomputation, in order: each rewrites the program that the rounds before
// have made.
type choice struct {
	rounds     []round
	peak, work int64 // peak in bytes, and extra time in the units of ir.Work.Time
}

// trim removes rounds at the end that drop nothing, except the first.
func (x *choice) trim() {
	for last := len(x.rounds) - 1; last > 0 && !slices.Contains(x.rounds[last].drop, true); last-- {
		x.rounds = x.rounds[:last]
	}
}

// better reports whether x beats y: within the budget the one with less work wins, else the one
// with the lower peak.
func (x *choice) better(y *choice, budget int64) bool {
	fits, had := x.peak <= budget, y.peak <= budget
	switch {
	case fits != had:
		return fits
	case fits:
		return x.work < y.work
	}
	return x.peak < y.peak || x.peak == y.peak && x.work < y.work
}

// copied returns a copy of x with drop sets of its own; keep sets are shared. Its peak and work are
// not set.
func (x *choice) copied() choice {
	y := choice{rounds: slices.Clone(x.rounds)}
	for k := range y.rounds {
		y.rounds[k].drop = slices.Clone(y.rounds[k].drop)
	}
	return y
}

// depth returns the number of the last round that drops v, counted from 1; 0: none does.
func (x *choice) depth(v kernels.Value) (n int) {
	for k := range x.rounds {
		if x.rounds[k].drop[v] {
			n = k + 1
		}
	}
	return n
}

// describe returns the rounds as lists of values, none where x drops nothing.
func (x *choice) describe() (all []ir.Round) {
	members := func(set []bool) (vs []kernels.Value) {
		for v, in := range set {
			if in {
				vs = append(vs, kernels.Value(v))
			}
		}
		return vs
	}
	for k := range x.rounds {
		r := ir.Round{Dropped: members(x.rounds[k].drop), Kept: members(x.rounds[k].keep)}
		if len(x.rounds) > 1 || len(r.Dropped) > 0 {
			all = append(all, r)
		}
	}
	return all
}
