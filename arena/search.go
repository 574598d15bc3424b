package arena

import (
	"cmp"
	"fmt"
	"slices"
)

// improve searches for a plan that is lower than best: first one that meets the target, then, where that is proved
// impossible or takes too long, by bisection between what is excluded and what is found.
func (s *solver) improve(best found) (found, error) {
	unit := s.items[0].align // all heights are multiples of it
	for _, it := range s.items {
		unit = gcd(gcd(unit, it.align), it.size)
	}
	d := newSearch(s, unit)
	low, proved := s.target-s.target%unit, true // nothing below low is of use
	try := func(capacity, effort int64) (verdict, error) {
		v, err := d.run(capacity, effort)
		if v == fits {
			copy(best.offsets, d.offsets)
			best.height, best.method = d.height(), "search"
		}
		return v, err
	}
	v, err := s.meet(try, low)
	if err != nil {
		return found{}, err
	}
	if v != fits {
		low, proved = low+unit, v == excluded
	}
	for low < best.height && s.effort > 0 {
		middle := low + (best.height-unit-low)/(2*unit)*unit
		v, err := try(middle, min(s.effort/2+1, s.effort))
		if err != nil {
			return found{}, err
		}
		if v != fits {
			low, proved = middle+unit, proved && v == excluded
		}
	}
	best.optimal = best.height <= s.target || proved && low >= best.height
	return best, nil
}

// meet searches for a plan of the given capacity with half of the effort, in turns of growing length with each
// preference: which of them is lucky differs from problem to problem.
func (s *solver) meet(try func(capacity, effort int64) (verdict, error), capacity int64) (verdict, error) {
	for part := int64(64); ; part /= 4 {
		effort := min(max(1, s.effort/2/part/numPreferences), s.effort)
		for range numPreferences {
			v, err := try(capacity, effort)
			if v != unknown || err != nil {
				return v, err
			}
		}
		if part == 1 {
			return unknown, nil
		}
	}
}

// verdict is the result of a search.
type verdict uint8

const (
	unknown  verdict = iota // the effort ended before
	fits                    // there is a plan of this capacity, in search.offsets
	excluded                // there is none
)

const numPreferences = 3

// search is a depth-first search for places within a capacity, after MiniMalloc (Moffitt, ASPLOS 2023).
//
// Any plan can be pushed down until every item lies at 0 or on top of another: it is canonical. Read from the lowest
// item to the highest, it puts each item on what is there already, so a search that places items by rising offset, each at
// its floor, sees all canonical plans. Ours prunes as MiniMalloc does: by sections (what is still to come over an instruction must
// fit above its floor), by dominance (an item is not placed where another would fit below it), and by splitting what no
// longer shares a section. Items that are alike keep their order.
//
//	offset
//	  │      ┌───────┐
//	  │ ┌────┤   3   │      floors after 1, 2, 3:  section 0 1 2 3
//	  │ │  2 ├───────┘                             floor   2 3 3 1
//	  │ ├────┴───────────┐
//	  │ │       1        │
//	  └─┴────────────────┴─ sections
type search struct {
	s       *solver
	nodes   []node
	rank    [numPreferences][]int32 // by preference, by node: small means to be tried first
	floor   []int64                 // by section: the top of what lies there
	left    []int64                 // by section: bytes still to be placed
	least   []int64                 // by section: the lowest offset that one still to be placed may get; scratch of visit
	placed  []bool                  // by node
	offsets []int64                 // by node
	undo    []floorChange
	stack   []int32 // lists of nodes, one behind another: candidates and groups of all open levels

	capacity int64
	pref     int
	limit    int64 // steps left in this run
	checked  int64 // steps at the last look at the context
	err      error
}

// node is an item with its life in sections: the distinct starts, without those whose live set is part of the next one's.
type node struct {
	from, to int32
	size     int64
	align    int64
	twin     int32 // the node before it that is like it in everything, -1 for none
}

// floorChange is what a placement did to a section.
type floorChange struct {
	section int32
	node    int32
	floor   int64
}

func newSearch(s *solver, unit int64) *search {
	d := &search{s: s, pref: -1}
	section, count := sections(s.items)
	starts, _ := sectionTotals(s.items)
	d.nodes = make([]node, len(s.items))
	twins := map[node]int32{}
	for i, it := range s.items {
		from, _ := slices.BinarySearch(starts, it.start)
		to, _ := slices.BinarySearch(starts, it.end)
		n := node{from: section[from], to: section[to-1] + 1, size: it.size, align: it.align}
		twin, ok := twins[n]
		twins[n] = int32(i)
		d.nodes[i] = n
		d.nodes[i].twin = -1
		if ok {
			d.nodes[i].twin = twin
		}
	}
	for k := range d.rank {
		s.sort(orders[len(orders)-numPreferences+k].keys)
		d.rank[k] = make([]int32, len(s.items))
		for r, i := range s.order {
			d.rank[k][i] = int32(r)
		}
	}
	d.floor, d.left, d.least = make([]int64, count), make([]int64, count), make([]int64, count)
	d.placed, d.offsets = make([]bool, len(s.items)), make([]int64, len(s.items))
	return d
}

// sections maps the distinct starts of sorted items to sections, and counts these. Starts without a death in between
// are one section: its last start sees the most.
func sections(items []item) (section []int32, count int) {
	starts, _ := sectionTotals(items)
	dies := make([]bool, len(starts)+1) // by start: whether one that lived at the start before is dead
	for _, it := range items {
		t, _ := slices.BinarySearch(starts, it.end)
		dies[t] = true
	}
	section = make([]int32, len(starts))
	for t := 1; t < len(starts); t++ {
		section[t] = section[t-1]
		if dies[t] {
			section[t]++
		}
	}
	return section, int(section[len(starts)-1]) + 1
}

// run searches with the next preference.
func (d *search) run(capacity, effort int64) (verdict, error) {
	d.capacity, d.limit, d.checked = capacity, effort, effort
	d.pref = (d.pref + 1) % numPreferences
	clear(d.floor)
	clear(d.left)
	clear(d.placed)
	d.undo, d.stack = d.undo[:0], d.stack[:0]
	for i, n := range d.nodes {
		d.stack = append(d.stack, int32(i))
		for t := n.from; t < n.to; t++ {
			d.left[t] += n.size
		}
	}
	ok := d.split(0, len(d.nodes), 0, -1)
	d.s.effort -= effort - max(0, d.limit)
	switch {
	case d.err != nil:
		return unknown, d.err
	case ok:
		return fits, nil
	case d.limit <= 0:
		return unknown, nil
	}
	return excluded, nil
}

// height returns the bytes of the plan found.
func (d *search) height() int64 {
	var h int64
	for i, n := range d.nodes {
		h = max(h, d.offsets[i]+n.size)
	}
	return h
}

// split divides the nodes in stack[lo:hi] into groups that share no section, and searches each: one group
// without a solution excludes the whole. Placements so far ended at offset last, with the node of rank lastRank.
func (d *search) split(lo, hi int, last int64, lastRank int32) bool {
	list := d.stack[lo:hi]
	slices.SortFunc(list, func(a, b int32) int {
		return cmp.Or(cmp.Compare(d.nodes[a].from, d.nodes[b].from), cmp.Compare(a, b))
	})
	mark := len(d.undo)
	for a := lo; a < hi; {
		b, to := a, int32(0)
		for b < hi && (b == a || d.nodes[d.stack[b]].from < to) {
			to = max(to, d.nodes[d.stack[b]].to)
			b++
		}
		if !d.visit(a, b, last, lastRank) {
			d.revert(mark)
			return false
		}
		a = b
	}
	return true
}

// visit places the nodes in stack[lo:hi], which are connected.
func (d *search) visit(lo, hi int, last int64, lastRank int32) bool {
	below, ok := d.prune(lo, hi, last)
	if !ok {
		return false
	}
	rank := d.rank[d.pref]
	base := len(d.stack)
	defer func() { d.stack = d.stack[:base] }()
	for _, i := range d.stack[lo:hi] {
		n := &d.nodes[i]
		off := d.offsets[i]
		if off < last || off >= below || off == last && rank[i] < lastRank || n.twin >= 0 && !d.placed[n.twin] {
			continue
		}
		d.stack = append(d.stack, i)
	}
	end := len(d.stack)
	slices.SortFunc(d.stack[base:end], func(a, b int32) int {
		return cmp.Or(cmp.Compare(d.offsets[a], d.offsets[b]), cmp.Compare(rank[a], rank[b]))
	})
	// Offsets of nodes not placed are scratch that deeper levels overwrite.
	for k := base; k < end; k++ {
		i := d.stack[k]
		off := d.rest(i)
		mark := len(d.undo)
		d.put(i, off)
		from := len(d.stack)
		for _, j := range d.stack[lo:hi] {
			if j != i {
				d.stack = append(d.stack, j)
			}
		}
		if d.split(from, len(d.stack), off, rank[i]) {
			return true
		}
		d.stack = d.stack[:from]
		d.revert(mark)
		if d.limit <= 0 {
			return false
		}
	}
	return false
}

// prune computes where the nodes in stack[lo:hi] would rest now, into offsets, and whether all can still fit. It also
// returns the lowest top any of them would have: one that starts there or above is not the next.
func (d *search) prune(lo, hi int, last int64) (below int64, ok bool) {
	if !d.spend(lo, hi) {
		return 0, false
	}
	below = d.capacity
	from, to := d.nodes[d.stack[lo]].from, int32(0)
	for _, i := range d.stack[lo:hi] {
		to = max(to, d.nodes[i].to)
	}
	for t := from; t < to; t++ {
		d.least[t] = d.capacity
	}
	for _, i := range d.stack[lo:hi] {
		n := &d.nodes[i]
		off := d.rest(i)
		d.offsets[i] = off
		below = min(below, off+n.size)
		off = alignUp(max(off, last), n.align)
		if off+n.size > d.capacity {
			return 0, false
		}
		for t := n.from; t < n.to; t++ {
			d.least[t] = min(d.least[t], off)
		}
	}
	for t := from; t < to; t++ {
		if d.left[t] > 0 && max(d.floor[t], d.least[t])+d.left[t] > d.capacity {
			return 0, false
		}
	}
	return below, true
}

// spend counts the steps of a visit, and looks at the context now and then.
func (d *search) spend(lo, hi int) bool {
	steps := int64(hi - lo)
	for _, i := range d.stack[lo:hi] {
		steps += int64(d.nodes[i].to - d.nodes[i].from)
	}
	d.limit -= steps
	if d.checked-d.limit > 1<<20 {
		d.checked = d.limit
		if err := d.s.ctx.Err(); err != nil {
			d.err, d.limit = fmt.Errorf("solve: %w", err), 0
		}
	}
	return d.limit > 0
}

// rest returns the lowest offset at which node i lies on what is placed.
func (d *search) rest(i int32) int64 {
	n := &d.nodes[i]
	var off int64
	for _, f := range d.floor[n.from:n.to] {
		off = max(off, f)
	}
	return alignUp(off, n.align)
}

// put places node i.
func (d *search) put(i int32, off int64) {
	n := &d.nodes[i]
	d.placed[i], d.offsets[i] = true, off
	for t := n.from; t < n.to; t++ {
		d.undo = append(d.undo, floorChange{t, i, d.floor[t]})
		d.floor[t] = off + n.size
		d.left[t] -= n.size
	}
}

// revert takes back placements, newest first, until mark of them are left.
func (d *search) revert(mark int) {
	for k := len(d.undo) - 1; k >= mark; k-- {
		c := d.undo[k]
		d.floor[c.section] = c.floor
		d.left[c.section] += d.nodes[c.node].size
		d.placed[c.node] = false
	}
	d.undo = d.undo[:mark]
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
