package schedule

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// transfers moves the transfers of an order to where they overlap with compute. A stop is an
// instruction that reads a prefetched value for the first time. Copies are double-buffered: right
// before stop k come the writebacks of stop k-1 and the prefetches of stop k+1. So scratch holds the
// copies of two stops at once, and a transfer has the time from one stop to the next.
//
//	prefetch 1, 2 │ stop 1 │ … │ write back 1, prefetch 3 │ stop 2 │ … │ write back 2, prefetch 4 │ …
type transfers struct {
	p          *ir.Program
	viewOrCopy []int32   // by value: the instruction that makes it if that is a view or a prefetch, else -1
	reads      [][]int32 // by instruction: the prefetches of its operands
	prefetched [][]int32 // by home: the prefetches of its bytes
	writeback  [][]int32 // by value: the instructions that write it back

	// Of the order that is made:
	order []int32
	done  []bool  // by instruction: it is in order
	stops []int32 // instructions that are the first to read some prefetched value, in order
}

func newTransfers(p *ir.Program) *transfers {
	t := &transfers{p: p, viewOrCopy: make([]int32, len(p.Values)), reads: make([][]int32, len(p.Instrs)),
		prefetched: make([][]int32, len(p.Values)), writeback: make([][]int32, len(p.Values))}
	for v := range t.viewOrCopy {
		t.viewOrCopy[v] = -1
	}
	for i := range p.Instrs {
		switch in := &p.Instrs[i]; {
		case in.Op == kernels.Writeback:
			t.writeback[in.In[0]] = append(t.writeback[in.In[0]], int32(i))
		case in.Op == kernels.Prefetch:
			root, _ := p.Root(in.In[0])
			t.prefetched[root] = append(t.prefetched[root], int32(i))
			t.viewOrCopy[in.Out[0]] = int32(i)
		case in.Op.View != nil:
			t.viewOrCopy[in.Out[0]] = int32(i)
		}
	}
	for i := range p.Instrs {
		for _, v := range p.Instrs[i].In {
			if f := t.viewOrCopy[v]; f >= 0 && p.Instrs[f].Op == kernels.Prefetch {
				t.reads[i] = append(t.reads[i], f)
			}
		}
	}
	return t
}

// overlap returns order with its transfers moved. Without prefetches it is order itself.
//
// Invariant: each instruction is appended once, after all that it waits for.
func (t *transfers) overlap(order []int32) []int32 {
	t.findStops(order)
	if len(t.stops) == 0 {
		return order
	}
	t.order, t.done = make([]int32, 0, len(order)), make([]bool, len(t.p.Instrs))
	k := 0 // the next stop
	for _, i := range order {
		switch {
		case t.p.Instrs[i].Op.IsTransfer():
			continue
		case k < len(t.stops) && i == t.stops[k]:
			if k == 0 {
				t.prefetch(0)
			} else {
				t.write(k - 1)
			}
			k++
			t.prefetch(k)
		}
		t.add(i)
	}
	t.write(k - 1)
	return t.order
}

// findStops finds the stops of an order.
func (t *transfers) findStops(order []int32) {
	t.stops = t.stops[:0]
	read := make([]bool, len(t.p.Instrs)) // by prefetch
	for _, i := range order {
		first := false
		for _, f := range t.reads[i] {
			first = first || !read[f]
			read[f] = true
		}
		if first {
			t.stops = append(t.stops, i)
		}
	}
}

// add appends an instruction. A transfer comes after the views that are its operands, and a
// writeback after all prefetches of the bytes that it overwrites.
func (t *transfers) add(i int32) {
	if t.done[i] {
		return
	}
	t.done[i] = true
	in := &t.p.Instrs[i]
	if in.Op.IsTransfer() {
		for _, v := range in.In {
			if m := t.viewOrCopy[v]; m >= 0 {
				t.add(m)
			}
		}
	}
	if in.Op == kernels.Writeback {
		root, _ := t.p.Root(in.In[1])
		for _, f := range t.prefetched[root] {
			if intersect(t.p, t.p.Instrs[f].In[0], in.In[1]) {
				t.add(f)
			}
		}
	}
	t.order = append(t.order, i)
}

// intersect reports whether two values share bytes.
func intersect(p *ir.Program, v, w kernels.Value) bool {
	a, from := p.Root(v)
	b, at := p.Root(w)
	return a == b && from < at+p.Spec(w).Bytes() && at < from+p.Spec(v).Bytes()
}

// prefetch appends the prefetches of stop k, if there is one.
func (t *transfers) prefetch(k int) {
	if k >= len(t.stops) {
		return
	}
	for _, f := range t.reads[t.stops[k]] {
		t.add(f)
	}
}

// write appends the writebacks of the values that stop k has changed.
func (t *transfers) write(k int) {
	for _, v := range t.p.Instrs[t.stops[k]].Out {
		for _, i := range t.writeback[v] {
			t.add(i)
		}
	}
}
