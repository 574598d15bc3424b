package compile

import (
	"cmp"
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
)

// expansions is how many orders the schedulers make others of. More have lowered the peak of no net that was tried.
const expansions = 8

// order sorts the instructions for a low peak.
func (c *compiler) order() {
	n := len(c.Instrs)
	c.Order = sequence(n)
	c.alike = c.like()
	switch {
	case c.alike:
		copy(c.Order, c.Like.Order)
	case c.Off&Order == 0:
		c.Order = c.lowest()
	}
	c.Instrs = c.sorted(c.Order)
}

// sequence returns 0, 1, ..., n-1.
func sequence(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// lowest returns the order with the lowest peak, the first found on a tie: a best-first search through what schedulers make of orders.
func (c *compiler) lowest() []int32 {
	s := c.schedule()
	made := sequence(len(c.Instrs))
	if c.scheduler != nil {
		return c.scheduler.order(s, made)
	}
	found := []candidate{{order: made, peak: c.peak(made)}}
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
			order := sch.order(s, found[from].order)
			if !slices.ContainsFunc(found, func(f candidate) bool { return slices.Equal(f.order, order) }) {
				found = append(found, candidate{order: order, peak: c.peak(order)})
			}
		}
	}
	return slices.MinFunc(found, func(a, b candidate) int { return cmp.Compare(a.peak, b.peak) }).order
}

// candidate is an order and its peak in bytes.
type candidate struct {
	order    []int32
	peak     int64
	expanded bool
}

// sorted returns the instructions in an order.
func (c *compiler) sorted(order []int32) []ir.Instr {
	in := make([]ir.Instr, len(order))
	for at, i := range order {
		in[at] = c.Instrs[i]
	}
	return in
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

// peak returns the most bytes of scratch that are live at once in an order, when results have taken over what they can.
func (c *compiler) peak(order []int32) int64 {
	d, p := *c, *c.Program
	p.Instrs, p.Values = c.sorted(order), slices.Clone(p.Values)
	d.Program = &p
	if d.Off&InPlace == 0 {
		d.inPlace()
	}
	return d.most()
}
