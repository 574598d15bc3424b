package compile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
)

// Limits of the choice of an order.
const (
	expansions = 8 // how many orders the schedulers make others of; more have lowered the peak of no net that was tried
	placements = 4 // how many orders are tried where places for the values of the first need more than lives at once
)

// finish orders the instructions and places their values: in the order of the lowest peak, and, while more bytes are needed than live at once
// in the next one, in that one too.
func (c *compiler) finish(ctx context.Context) error {
	var best *compiler
	for k, o := range c.candidates() {
		if k > 0 && (k == placements || o.peak >= best.Plan.Bytes) {
			break
		}
		d := c.in(o.order)
		if err := d.solve(ctx); err != nil {
			return fmt.Errorf("place %s: %w", c.Name, err)
		}
		if best == nil || d.Plan.Bytes < best.Plan.Bytes {
			best = d
		}
	}
	*c.Program = *best.Program
	return c.place()
}

// in returns a copy of c whose instructions are in an order, their results in place where they can be.
func (c *compiler) in(order []int32) *compiler {
	d, p := *c, *c.Program
	p.Order, p.Values, p.Instrs = order, slices.Clone(p.Values), make([]ir.Instr, len(order))
	for at, i := range order {
		p.Instrs[at] = c.Instrs[i]
	}
	b := *c.Builder
	b.Program, d.Builder = &p, &b
	if d.Off&InPlace == 0 {
		d.inPlace()
	}
	return &d
}

// sequence returns 0, 1, ..., n-1.
func sequence(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// candidates returns orders by rising peak, on a tie as they were found: a best-first search through what schedulers make of orders, from the one in
// which the instructions were made.
func (c *compiler) candidates() []candidate {
	made := sequence(len(c.Instrs))
	switch c.alike = c.like(); {
	case c.alike:
		return []candidate{{order: slices.Clone(c.Like.Order)}}
	case c.Off&Order != 0:
		return []candidate{{order: c.newStreaming().streamed(made)}}
	}
	s, moved := c.schedule(), c.newStreaming()
	if c.scheduler != nil {
		return []candidate{{order: moved.streamed(c.scheduler.order(s, made))}}
	}
	made = moved.streamed(made)
	found := []candidate{{order: made, peak: c.in(made).most()}}
	for range expansions {
		from := -1
		for i := range found {
			if !found[i].expanded && (from < 0 || found[i].peak < found[from].peak) {
				from = i
			}
		}
		if from < 0 {
			break
		}
		found[from].expanded = true
		for _, sch := range schedulers {
			order := moved.streamed(sch.order(s, found[from].order))
			if !slices.ContainsFunc(found, func(f candidate) bool { return slices.Equal(f.order, order) }) {
				found = append(found, candidate{order: order, peak: c.in(order).most()})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.peak, b.peak) })
	return found
}

// candidate is an order and its peak in bytes.
type candidate struct {
	order    []int32
	peak     int64
	expanded bool
}

// like reports whether the program, before it is ordered, has the very instructions of c.Like, so that order and places can be
// taken over.
func (c *compiler) like() bool {
	if c.Like == nil || len(c.Like.Order) != len(c.Instrs) {
		return false
	}
	for at, i := range c.Like.Order {
		a, b := &c.Instrs[i], &c.Like.Instrs[at]
		if a.Op != b.Op || !slices.Equal(a.In, b.In) || !slices.Equal(a.Out, b.Out) {
			return false
		}
	}
	return true
}
