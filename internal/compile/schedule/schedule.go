// Package schedule orders a program's instructions and gives every value an address.
//
// [Run] does all of it: it lets results share the bytes of operands ([Alias], [InPlace]), searches
// an order with a low peak ([Candidates], by the schedulers of [Schedulers]), derives live ranges
// ([LiveRanges]) and places them with [arena.Solve].
//
//	program ─► alias ─► order ─► in place ─► live ranges ─► placement
//
// No bits change: every order keeps the dependencies of [Graph]. Passes and recomputation ask the
// same functions for the peak that a program would have ([Peak], [Live], [Trial]).
package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Options control how a program is ordered and placed.
type Options struct {
	Device kernels.Device // whose workspaces are placed too; nil: a device without workspaces
	Debug  bool           // leave guard bytes after each buffer, for arena.Sentry

	// Like is the same model and mode at a larger batch: where the instructions are equal, its
	// order and placement are reused. nil: none.
	Like *ir.Program

	Order   bool // search an order; false: keep the order in which the instructions were built
	InPlace bool // results reuse the bytes of operands that no later instruction reads
	Views   bool // reshapes and slices alias their operand

	Scheduler *Scheduler // the only one, for tests; nil: all compete

	enough int64 // bytes of scratch that are there in any case: needing fewer gains nothing
}

// Limits of the search for an order.
const (
	expansions = 8 // orders that all schedulers start from; with more, no tested net had a lower peak
	// placements is the most orders to place. Run stops earlier once the best placement needs no
	// more than the peak of the next order.
	placements = 4
)

// Run orders the instructions of p and places its values. Of the candidate orders it keeps the one
// that needs the fewest bytes of scratch: no placement needs fewer bytes than the peak, but some
// need more, and then an order with a higher peak may need fewer.
func Run(ctx context.Context, p *ir.Program, o Options) error {
	Alias(p, o.Views)
	if o.Like != nil {
		o.enough = o.Like.Plan.Bytes // the memory is there
	}
	if !sameInstrs(p, o.Like) {
		o.Like = nil
	}
	var best *ir.Program
	for k, c := range Candidates(p, o) {
		// Candidates come by rising peak: one whose peak is no lower than the best placement cannot
		// win.
		if k > 0 && (k == placements || max(c.Peak, o.enough) >= best.Plan.Bytes) {
			break
		}
		d := inOrder(p, c.Order, o)
		if err := solve(ctx, d, o); err != nil {
			return fmt.Errorf("place %s: %w", p.Name, err)
		}
		if best == nil || d.Plan.Bytes < best.Plan.Bytes {
			best = d
		}
	}
	*p = *best
	return place(p, o.Device)
}

// Trial returns a copy of p, ordered and aliased as Run would, but not placed. It does not look at
// o.Like.
func Trial(p *ir.Program, o Options) *ir.Program {
	d := p.Clone()
	o.Like = nil
	Alias(d, o.Views)
	return inOrder(d, Candidates(d, o)[0].Order, o)
}

// Candidate is an order, as indices into the instructions as they were built, and its peak in
// bytes.
type Candidate struct {
	Order []int32
	Peak  int64

	expanded bool // the schedulers have already started from it
}

// Candidates returns orders of p by rising peak; ties keep the order in which they were found. It
// is a best-first search: it starts from the order in which the instructions were built, and again
// and again lets all schedulers start from the best order so far that they have not started from.
//
//	built 90 MB ─► {80, 70, 90} ─► from 70: {65, 75} ─► from 65: …
//
// Where p has the instructions of o.Like, the only
// candidate is that program's order.
func Candidates(p *ir.Program, o Options) []Candidate {
	if sameInstrs(p, o.Like) {
		return []Candidate{{Order: slices.Clone(o.Like.Order)}}
	}
	built, t, deps := Sequence(len(p.Instrs)), newTransfers(p), dependencies(p)
	overlap := func(order []int32) []int32 { return overlapSums(p, deps, t.overlap(order)) }
	if !o.Order {
		return []Candidate{{Order: overlap(built)}}
	}
	if o.Scheduler != nil {
		return []Candidate{{Order: overlap(o.Scheduler.Order(deps, built))}}
	}
	peak := peaks(p, o)
	built = overlap(built)
	found := []Candidate{{Order: built, Peak: peak(built)}}
	for range expansions {
		// Expand the best order that has not been expanded.
		best := -1
		for i := range found {
			if !found[i].expanded && (best < 0 || found[i].Peak < found[best].Peak) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		found[best].expanded = true
		from := found[best].Order
		for _, s := range schedulers {
			order := overlap(s.Order(deps, from))
			if !slices.ContainsFunc(found, func(c Candidate) bool { return slices.Equal(c.Order, order) }) {
				found = append(found, Candidate{Order: order, Peak: peak(order)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Candidate) int { return cmp.Compare(a.Peak, b.Peak) })
	return found
}

// peaks returns a function that returns the peak of p in an order. It reuses memory, and computes
// the workspace of each instruction once.
func peaks(p *ir.Program, o Options) func(order []int32) int64 {
	d := p.Clone()
	workspaces := make([]int64, len(p.Instrs)) // by instruction as built
	for i := range workspaces {
		workspaces[i] = -1 // not computed yet
	}
	return func(order []int32) int64 {
		copy(d.Values, p.Values)
		for at, i := range order {
			d.Instrs[at] = p.Instrs[i]
		}
		if o.InPlace {
			InPlace(d)
		}
		_, peak := liveBytes(d, func(at int) int64 {
			in, w := &d.Instrs[at], &workspaces[order[at]]
			switch {
			case d.IsView(in):
				return 0
			case *w < 0:
				*w = Workspace(d, in, o.Device)
			}
			return *w
		})
		return peak
	}
}

// inOrder returns a copy of p with its instructions in an order, and with results in place where
// the order allows it.
func inOrder(p *ir.Program, order []int32, o Options) *ir.Program {
	d := *p
	d.Order, d.Values, d.Instrs = order, slices.Clone(p.Values), Reorder(p.Instrs, order)
	if o.InPlace {
		InPlace(&d)
	}
	return &d
}

// Reorder returns a copy of instrs in an order.
func Reorder(instrs []ir.Instr, order []int32) []ir.Instr {
	ordered := make([]ir.Instr, len(instrs))
	for at, i := range order {
		ordered[at] = instrs[i]
	}
	return ordered
}

// Sequence returns 0, 1, …, n-1.
func Sequence(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// sameInstrs reports whether p, before it is ordered, has the instructions of like: then its order
// and placement can be reused.
func sameInstrs(p, like *ir.Program) bool {
	if like == nil || len(like.Order) != len(p.Instrs) {
		return false
	}
	for at, i := range like.Order {
		a, b := &p.Instrs[i], &like.Instrs[at]
		if a.Op != b.Op || !slices.Equal(a.In, b.In) || !slices.Equal(a.Out, b.Out) {
			return false
		}
	}
	return true
}

// solve finds the offsets of p's buffers: those of o.Like where they fit, so that a smaller batch
// fits wherever the larger one does, else by search.
func solve(ctx context.Context, p *ir.Program, o Options) (err error) {
	// A smaller batch has the same live ranges and smaller buffers, so the offsets of the larger
	// one fit unless alignment or a workspace differs.
	p.Problem = arena.Problem{Buffers: LiveRanges(p, o.Device).Buffers}
	if o.Debug {
		p.Problem = arena.Guarded(p.Problem)
	}
	if o.Like != nil && len(o.Like.Plan.Offsets) == len(p.Problem.Buffers) {
		plan := o.Like.Plan
		plan.Offsets = slices.Clone(plan.Offsets)
		plan.Live, plan.LiveAt = arena.Bound(p.Problem)
		if arena.Check(p.Problem, plan) == nil {
			p.Plan = plan
			return nil
		}
	}
	p.Problem.Enough = o.enough
	p.Plan, err = arena.Solve(ctx, p.Problem)
	return err
}

// place gives every value its address and proves that no two live values touch.
func place(p *ir.Program, dev kernels.Device) error {
	l := LiveRanges(p, dev) // without guards: those are the last buffers of p.Problem
	if err := arena.Check(p.Problem, p.Plan); err != nil {
		return fmt.Errorf("place %s: %w", p.Name, err)
	}
	for b, v := range l.Value {
		ref := arena.Ref{Region: ir.Scratch, Offset: p.Plan.Offsets[b], Size: l.Buffers[b].Size}
		if v == kernels.None {
			p.Instrs[l.Instr[b]].Work = ref
		} else {
			p.Values[v].Ref = ref
		}
	}
	// Aliases lie in their root, wherever that is.
	for v := range p.Values {
		if root, delta := p.Root(kernels.Value(v)); int(root) != v {
			r := p.Values[root].Ref
			p.Values[v].Ref = arena.Ref{Region: r.Region, Offset: r.Offset + delta, Size: p.Values[v].Spec.Bytes()}
		}
	}
	return nil
}
