package schedule

import (
	"cmp"
	"slices"
)

// Scheduler makes an order from another one. Where it has no preference it keeps the order of
// from.
type Scheduler struct {
	Name  string
	Order func(g *Graph, from []int32) []int32
}

// schedulers compete. None is best for all graphs, and one often improves on the order of another:
//
//   - depth first is optimal for trees;
//   - least growth keeps few bytes live at each instruction, but does not look ahead;
//   - free early and make late only move what lowers the live bytes, and keep the rest of an order;
//   - schedulers that go backward see which values an instruction keeps live instead of which it frees;
//   - one sink at a time lets a gradient end with its update before the next one begins.
var schedulers = []Scheduler{
	{"depth first", (*Graph).depthFirst},
	{"least growth", func(g *Graph, from []int32) []int32 { return g.forward(from, false) }},
	{"free early", func(g *Graph, from []int32) []int32 { return g.forward(from, true) }},
	{"least growth, backward", func(g *Graph, from []int32) []int32 { return g.backward(from, false) }},
	{"make late", func(g *Graph, from []int32) []int32 { return g.backward(from, true) }},
	{"one sink at a time", (*Graph).sinks},
}

// Schedulers returns all schedulers that compete.
func Schedulers() []Scheduler { return slices.Clone(schedulers) }

// Topological returns the order that is closest to from: the first ready instruction of from comes
// next.
func (g *Graph) Topological(from []int32) []int32 {
	return list(from, g.before, g.after, func(int32) int64 { return 0 }, func(int32, func(int32)) {})
}

// forward is list scheduling: it picks the ready instruction with the least growth of live bytes.
// Among ties it keeps the order of from. Where onlyFrees is set, all positive growths tie, so that
// only instructions that free bytes are preferred.
//
// The growth of an instruction is the bytes that it makes minus those that it reads last.
func (g *Graph) forward(from []int32, onlyFrees bool) []int32 {
	// An instruction frees a value where it is its last reader. When only one reader of a value is
	// left, the growth of that reader falls.
	left := make([]int32, len(g.readers)) // by root value: readers that have not run
	for v, r := range g.readers {
		left[v] = int32(len(r))
	}
	growth := func(i int32) int64 {
		bytes := g.makes[i]
		for _, v := range g.reads[i] {
			if left[v] == 1 {
				bytes -= g.bytes[v]
			}
		}
		return capped(bytes, onlyFrees)
	}
	return list(from, g.before, g.after, growth, func(i int32, changed func(j int32)) {
		for _, v := range g.reads[i] {
			if left[v]--; left[v] == 1 {
				for _, j := range g.readers[v] {
					changed(j)
				}
			}
		}
	})
}

// backward is list scheduling from the end: it picks, of the instructions that no unscheduled one
// waits for, the one that leaves the fewest bytes live before it. Among ties it keeps the order of
// from (seen from the end, the later one is picked first). Where onlyFrees is set, only
// instructions that leave fewer bytes before them than after are preferred.
//
// The growth of an instruction is the bytes of the operands that no instruction after it reads
// (they become live before it), minus the bytes that it makes (they are not live before it).
func (g *Graph) backward(from []int32, onlyFrees bool) []int32 {
	// Backward, the first reader that is picked makes a value live. The growth of its other readers
	// falls then.
	live := make([]bool, len(g.readers)) // by root value: an instruction after this place reads it
	growth := func(i int32) int64 {
		bytes := -g.makes[i]
		for _, v := range g.reads[i] {
			if !live[v] {
				bytes += g.bytes[v]
			}
		}
		return capped(bytes, onlyFrees)
	}
	from = slices.Clone(from)
	slices.Reverse(from)
	order := list(from, g.after, g.before, growth, func(i int32, changed func(j int32)) {
		for _, v := range g.reads[i] {
			if live[v] {
				continue
			}
			live[v] = true
			for _, j := range g.readers[v] {
				changed(j)
			}
		}
	})
	slices.Reverse(order)
	return order
}

// capped returns a growth in bytes, at most 0 where only frees count.
func capped(bytes int64, onlyFrees bool) int64 {
	if onlyFrees {
		return min(bytes, 0)
	}
	return bytes
}

// list is list scheduling (Graham, Bounds for Certain Multiprocessing Anomalies, 1966, for one
// processor): of the ready instructions it picks the one with the least growth. Among ties it keeps
// the order of from. An instruction is ready once all of before[i] are picked. picked is called
// after each pick and reports the instructions whose growth changes through it.
//
// Invariant: the growth of an instruction only falls as others are picked, and each fall pushes a
// new entry. So of several entries of an instruction the newest has the least growth and comes out
// first.
func list(from []int32, before, after [][]int32, growth func(i int32) int64,
	picked func(i int32, changed func(j int32))) []int32 {
	rank, waits, done := make([]int32, len(from)), make([]int32, len(from)), make([]bool, len(from))
	q := make(queue, 0, 2*len(from))
	push := func(i int32) { q.push(ready{growth(i), rank[i], i}) }
	for k, i := range from {
		rank[i] = int32(k)
	}
	for i, b := range before {
		if waits[i] = int32(len(b)); waits[i] == 0 {
			push(int32(i))
		}
	}
	order := make([]int32, 0, len(from))
	for len(q) > 0 {
		// Older entries of an instruction come out after the one that was picked: skip them.
		i := q.pop().instr
		if done[i] {
			continue
		}
		done[i] = true
		order = append(order, i)
		picked(i, func(j int32) {
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

// ready is an instruction that list can pick.
type ready struct {
	growth int64 // bytes
	rank   int32 // in the order that decides ties
	instr  int32
}

// before reports whether r is picked before s.
func (r ready) before(s ready) bool {
	return r.growth < s.growth || r.growth == s.growth && r.rank < s.rank
}

// queue is a binary heap: entry i is picked no later than entries 2i+1 and 2i+2. Unlike
// container/heap it allocates nothing for an entry.
type queue []ready

// push adds an entry.
func (q *queue) push(r ready) {
	h := append(*q, r)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	*q = h
}

// pop removes the entry that is picked next, and returns it.
func (q *queue) pop() ready {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		next := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].before(h[next]) {
				next = child
			}
		}
		if next == i {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	*q = h
	return top
}

// depthFirst finishes one operand of an instruction before it begins the next. need is the peak
// while an operand is computed, makes the bytes that it leaves: the operand with the largest need −
// makes, which is needed only for a time, comes first. For a + b, where a needs 10 bytes and leaves
// 1, and b needs 6 and leaves 5: a first needs max(10, 1+6) = 10 bytes, b first max(6, 5+10) = 15.
// That is optimal for trees (Sethi and Ullman, The Generation of Optimal Code for Arithmetic
// Expressions, 1970); need counts a shared operand for each of its readers, as if the graph were a
// tree. Instructions that nothing waits for come in the order of from.
func (g *Graph) depthFirst(from []int32) []int32 {
	n := len(g.makes)
	need := make([]int64, n) // bytes that are live while i and all that it waits for run
	sorted := make([][]int32, n)
	for i := range n { // Invariant: dependencies point backwards, so need[j] is known for j in before[i]
		b := slices.Clone(g.before[i])
		slices.SortStableFunc(b, func(x, y int32) int { return cmp.Compare(need[y]-g.makes[y], need[x]-g.makes[x]) })
		var held int64
		for _, j := range b {
			need[i] = max(need[i], held+need[j])
			held += g.makes[j]
		}
		need[i] = max(need[i], held+g.makes[i])
		sorted[i] = b
	}
	v := newVisit(n, func(i int32) []int32 { return sorted[i] })
	for _, i := range from {
		if len(g.after[i]) == 0 {
			v.to(i)
		}
	}
	return v.order
}

// sinks takes the instructions that make no bytes of scratch, such as updates, in the order of
// from. It finishes one, with all that it waits for, before it begins the next. So a gradient dies
// before another one is made.
func (g *Graph) sinks(from []int32) []int32 {
	rank := make([]int32, len(from))
	for k, i := range from {
		rank[i] = int32(k)
	}
	v := newVisit(len(from), func(i int32) []int32 {
		return slices.SortedFunc(slices.Values(g.before[i]),
			func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	})
	for _, i := range from {
		if g.makes[i] == 0 {
			v.to(i)
		}
	}
	for _, i := range from {
		v.to(i)
	}
	return v.order
}

// visit is a depth-first traversal that appends each instruction after all that it waits for.
type visit struct {
	before func(i int32) []int32
	done   []bool
	order  []int32
}

func newVisit(n int, before func(i int32) []int32) *visit {
	return &visit{before: before, done: make([]bool, n), order: make([]int32, 0, n)}
}

func (v *visit) to(i int32) {
	if v.done[i] {
		return
	}
	v.done[i] = true
	for _, j := range v.before(i) {
		v.to(j)
	}
	v.order = append(v.order, i)
}
