package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// order sorts the instructions for a low peak. It tries the order in which they were made and a list order, in which the next
// to run is the ready one that leaves the fewest bytes live, and takes the better, the former on a tie.
func (c *compiler) order() {
	n := len(c.Instrs)
	c.Order = make([]int32, n)
	for i := range c.Order {
		c.Order[i] = int32(i)
	}
	c.alike = c.like()
	switch {
	case c.alike:
		copy(c.Order, c.Like.Order)
	case c.Off&Order == 0:
		made := c.peak(c.Order)
		if listed := c.listOrder(); c.peak(listed) < made {
			c.Order = listed
		}
	}
	sorted := make([]ir.Instr, n)
	for at, i := range c.Order {
		sorted[at] = c.Instrs[i]
	}
	c.Instrs = sorted
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

// peak returns the most bytes of scratch that are live at once in an order.
func (c *compiler) peak(order []int32) int64 {
	at := make([]int32, len(order))
	for k, i := range order {
		at[i] = int32(k)
	}
	bytes, _ := arena.Bound(arena.Problem{Buffers: c.lifetimes(func(i int) int32 { return at[i] }).buffers})
	return bytes
}

// listOrder is greedy list scheduling; ties go to the instruction made first.
func (c *compiler) listOrder() []int32 {
	s := c.schedule()
	order := make([]int32, 0, len(c.Instrs))
	var ready []int32
	for i, n := range s.waits {
		if n == 0 {
			ready = append(ready, int32(i))
		}
	}
	for len(ready) > 0 {
		best, cost := 0, s.growth(ready[0])
		for k := 1; k < len(ready); k++ {
			if g := s.growth(ready[k]); g < cost || g == cost && ready[k] < ready[best] {
				best, cost = k, g
			}
		}
		i := ready[best]
		ready = slices.Delete(ready, best, best+1)
		order = append(order, i)
		for _, v := range s.reads[i] {
			s.left[v]--
		}
		for _, j := range s.after[i] {
			if s.waits[j]--; s.waits[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	return order
}

// schedule is what list scheduling works on.
type schedule struct {
	waits []int32           // by instruction: how many must run before it
	after [][]int32         // by instruction: who waits for it
	reads [][]kernels.Value // by instruction: the scratch roots it reads, each once
	makes []int64           // by instruction: bytes it adds
	left  []int32           // by root value: readers that have not run
	bytes []int64           // by root value: bytes freed with the last reader
}

// growth returns the bytes by which live memory changes when i has run.
func (s *schedule) growth(i int32) int64 {
	g := s.makes[i]
	for _, v := range s.reads[i] {
		if s.left[v] == 1 {
			g -= s.bytes[v]
		}
	}
	return g
}

// schedule derives who waits for whom: a reader for the maker, whoever changes bytes where they lie for all earlier readers
// of those bytes, and a slice of a gradient for the update with the slice before.
func (c *compiler) schedule() *schedule {
	n := len(c.Instrs)
	s := &schedule{waits: make([]int32, n), after: make([][]int32, n), reads: make([][]kernels.Value, n), makes: make([]int64, n),
		left: make([]int32, len(c.Values)), bytes: make([]int64, len(c.Values))}
	maker := make([]int32, len(c.Values))
	for i := range maker {
		maker[i] = -1
	}
	readers := make([][]int32, len(c.Values)) // by root value, since its last change
	edge := func(a, b int32) {
		if a >= 0 && a != b && !slices.Contains(s.after[a], b) {
			s.after[a] = append(s.after[a], b)
			s.waits[b]++
		}
	}
	for i := range c.Instrs {
		in, at := &c.Instrs[i], int32(i)
		for _, o := range in.Out {
			if v, ok := c.follows[o]; ok {
				edge(maker[v], at)
			}
		}
		for _, v := range in.In {
			edge(maker[v], at)
			root, _ := c.Root(v)
			readers[root] = append(readers[root], at)
			if !c.Values[root].Home && !slices.Contains(s.reads[i], root) {
				s.reads[i] = append(s.reads[i], root)
				s.left[root]++
			}
		}
		for k, o := range in.Out {
			maker[o] = at
			root, _ := c.Root(o)
			if k < len(in.Op.Updates) {
				for _, r := range readers[root] {
					edge(r, at)
				}
				readers[root] = []int32{at}
			} else if root == o && !c.Values[o].Home {
				s.bytes[o] = arena.Round(c.Values[o].Spec.Bytes())
				s.makes[i] += s.bytes[o]
			}
		}
	}
	return s
}
