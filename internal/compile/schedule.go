package compile

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A scheduler makes an order of another one, which decides where it has no preference.
type scheduler struct {
	name  string
	order func(s *schedule, from []int32) []int32
}

var schedulers = []scheduler{
	{"deep", (*schedule).deep},
	{"least growth", func(s *schedule, from []int32) []int32 { return s.forward(from, false) }},
	{"free early", func(s *schedule, from []int32) []int32 { return s.forward(from, true) }},
	{"least growth, from behind", func(s *schedule, from []int32) []int32 { return s.backward(from, false) }},
	{"make late", func(s *schedule, from []int32) []int32 { return s.backward(from, true) }},
	{"one end after the other", (*schedule).ends},
}

// schedule is what orders are made of.
type schedule struct {
	before, after [][]int32         // by instruction: whom it waits for, and who waits for it
	reads         [][]kernels.Value // by instruction: the scratch roots it reads, each once
	makes         []int64           // by instruction: bytes it adds
	readers       [][]int32         // by root value
	bytes         []int64           // by root value
}

// schedule derives who waits for whom: a reader for the maker, whoever changes bytes where they lie for all earlier readers
// of those bytes, and a slice of a gradient for the update with the slice before.
func (c *compiler) schedule() *schedule {
	n := len(c.Instrs)
	s := &schedule{before: make([][]int32, n), after: make([][]int32, n), reads: make([][]kernels.Value, n), makes: make([]int64, n),
		readers: make([][]int32, len(c.Values)), bytes: make([]int64, len(c.Values))}
	maker := make([]int32, len(c.Values))
	for i := range maker {
		maker[i] = -1
	}
	since := make([][]int32, len(c.Values)) // by root value: who has read it since its last change
	edge := func(a, b int32) {
		// All edges to b are made while b is looked at: a repeated one is the last of a.
		if a >= 0 && a != b && (len(s.after[a]) == 0 || s.after[a][len(s.after[a])-1] != b) {
			s.after[a] = append(s.after[a], b)
			s.before[b] = append(s.before[b], a)
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
			since[root] = append(since[root], at)
			if !c.Values[root].Home && !slices.Contains(s.reads[i], root) {
				s.reads[i] = append(s.reads[i], root)
				s.readers[root] = append(s.readers[root], at)
			}
		}
		for k, o := range in.Out {
			maker[o] = at
			root, _ := c.Root(o)
			if k < len(in.Op.Updates) {
				for _, r := range since[root] {
					edge(r, at)
				}
				since[root] = []int32{at}
			} else if root == o && !c.Values[o].Home {
				s.bytes[o] = arena.Round(c.Values[o].Spec.Bytes())
				s.makes[i] += s.bytes[o]
			}
		}
	}
	return s
}

// forward is list scheduling: next comes, of those that can run, the one after which the fewest bytes live; where onlyFrees is set, one that
// frees bytes, and only where there is none the next of from.
func (s *schedule) forward(from []int32, onlyFrees bool) []int32 {
	left := make([]int32, len(s.readers)) // by root value: readers that have not run
	for v, r := range s.readers {
		left[v] = int32(len(r))
	}
	growth := func(i int32) int64 {
		g := s.makes[i]
		for _, v := range s.reads[i] {
			if left[v] == 1 {
				g -= s.bytes[v]
			}
		}
		return g
	}
	return list(from, s.before, s.after, onlyFrees, growth, func(i int32, changed func(j int32)) {
		for _, v := range s.reads[i] {
			if left[v]--; left[v] == 1 {
				for _, j := range s.readers[v] {
					changed(j)
				}
			}
		}
	})
}

// backward is list scheduling from the end: last comes, of those that nobody waits for, the one before which the fewest bytes live; where onlyFrees is set,
// one before which fewer bytes live than after it, and only where there is none the last of from.
func (s *schedule) backward(from []int32, onlyFrees bool) []int32 {
	live := make([]bool, len(s.readers)) // by root value: somebody behind reads it
	growth := func(i int32) int64 {
		g := -s.makes[i]
		for _, v := range s.reads[i] {
			if !live[v] {
				g += s.bytes[v]
			}
		}
		return g
	}
	from = slices.Clone(from)
	slices.Reverse(from)
	order := list(from, s.after, s.before, onlyFrees, growth, func(i int32, changed func(j int32)) {
		for _, v := range s.reads[i] {
			if live[v] {
				continue
			}
			live[v] = true
			for _, j := range s.readers[v] {
				changed(j)
			}
		}
	})
	slices.Reverse(order)
	return order
}

// list takes one instruction after another of those for which all of before have been taken: that of least growth, the first of
// from on a tie; where onlyFrees is set, positive growths count as 0. taken notes that one has been taken, and tells whose growth that changes;
// it can only fall.
func list(from []int32, before, after [][]int32, onlyFrees bool, growth func(i int32) int64, taken func(i int32, changed func(j int32))) []int32 {
	rank, waits, done := make([]int32, len(from)), make([]int32, len(from)), make([]bool, len(from))
	q := &queue{}
	push := func(i int32) {
		g := growth(i)
		if onlyFrees {
			g = min(g, 0)
		}
		heap.Push(q, ready{g, rank[i], i})
	}
	for k, i := range from {
		rank[i] = int32(k)
	}
	for i, b := range before {
		if waits[i] = int32(len(b)); waits[i] == 0 {
			push(int32(i))
		}
	}
	order := make([]int32, 0, len(from))
	for q.Len() > 0 {
		// An instruction whose growth has fallen is in the queue again, in front of what it was.
		i := heap.Pop(q).(ready).instr
		if done[i] {
			continue
		}
		done[i] = true
		order = append(order, i)
		taken(i, func(j int32) {
			if waits[j] == 0 && !done[j] {
				push(j)
			}
		})
		for _, j := range after[i] {
			if waits[j]--; waits[j] == 0 {
				push(j)
			}
		}
	}
	return order
}

// ready is an instruction that list can take.
type ready struct {
	growth int64 // bytes
	rank   int32
	instr  int32
}

// queue is a heap, the one to be taken next at its top.
type queue []ready

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *queue) Push(x any)   { *q = append(*q, x.(ready)) }
func (q queue) Less(a, b int) bool {
	if q[a].growth != q[b].growth {
		return q[a].growth < q[b].growth
	}
	return q[a].rank < q[b].rank
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// deep returns an order that finishes what an instruction waits for before it begins something else: what needs most bytes beyond those that stay comes
// first, which is best for trees (Sethi and Ullman, 1970), as which this counts needs. What nobody waits for comes in the order of from.
func (s *schedule) deep(from []int32) []int32 {
	n := len(s.makes)
	need := make([]int64, n) // bytes that live while i and all before it run
	sorted := make([][]int32, n)
	for i := range n { // instructions are made after those that they wait for
		b := slices.Clone(s.before[i])
		slices.SortStableFunc(b, func(x, y int32) int {
			return int(min(1, max(-1, (need[y]-s.makes[y])-(need[x]-s.makes[x]))))
		})
		var held int64
		for _, j := range b {
			need[i] = max(need[i], held+need[j])
			held += s.makes[j]
		}
		need[i] = max(need[i], held+s.makes[i])
		sorted[i] = b
	}
	order, done := make([]int32, 0, n), make([]bool, n)
	var visit func(i int32)
	visit = func(i int32) {
		if done[i] {
			return
		}
		done[i] = true
		for _, j := range sorted[i] {
			visit(j)
		}
		order = append(order, i)
	}
	for _, i := range from {
		if len(s.after[i]) == 0 {
			visit(i)
		}
	}
	return order
}

// ends returns an order in which each instruction that makes nothing, as an update, follows what it waits for, before anything is done for the next one.
func (s *schedule) ends(from []int32) []int32 {
	order, done := make([]int32, 0, len(from)), make([]bool, len(from))
	rank := make([]int32, len(from))
	for k, i := range from {
		rank[i] = int32(k)
	}
	var visit func(i int32)
	visit = func(i int32) {
		if done[i] {
			return
		}
		done[i] = true
		before := slices.SortedFunc(slices.Values(s.before[i]), func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
		for _, j := range before {
			visit(j)
		}
		order = append(order, i)
	}
	for _, i := range from {
		if s.makes[i] == 0 {
			visit(i)
		}
	}
	for _, i := range from {
		visit(i)
	}
	return order
}
