package arena

import (
	"cmp"
	"fmt"
	"slices"
)

// improve searches for a plan lower than best. It first tries the target. If that is proved
// impossible or takes too long, it bisects between the excluded heights and the best one found.
func (s *solver) improve(best found) (found, error) {
	unit := s.items[0].align // all heights are multiples of it
	for _, it := range s.items {
		unit = gcd(gcd(unit, it.align), it.size)
	}
	d := newSearch(s)
	low, proved := s.target-s.target%unit, true // heights below low need not be tried
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

// meet searches for a plan of the given capacity with half of the effort. It alternates between the
// preferences, in runs of growing length, because no preference is the fastest for all problems.
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
	unknown  verdict = iota // the effort was spent
	fits                    // a plan of this capacity is in search.offsets
	excluded                // there is no such plan
)

const numPreferences = 3

// search is a depth-first search for places within a capacity, after MiniMalloc (Moffitt, ASPLOS
// 2023).
//
// In a canonical plan every item lies at 0 or on top of another item; any plan can be made
// canonical by pushing items down. A search that places items by rising offset, each at the floor
// of its sections, therefore finds all canonical plans. It prunes as MiniMalloc does: by sections
// (the items still to place in a section must fit above its floor), by dominance (an item is not
// placed where another one would fit below it), and by splitting groups of items that no longer
// share a section. Equal items keep their order.
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
	rank    [numPreferences][]int32 // by preference, by node: a node of small rank is tried first
	floor   []int64                 // by section: the top of the placed items
	left    []int64                 // by section: bytes still to place
	lowest  []int64                 // by section: the lowest offset of an item still to place; scratch of prune
	placed  []bool                  // by node
	offsets []int64                 // by node
	undo    []floorChange
	stack   []int32 // lists of nodes, one after another: candidates and groups of all open levels

	capacity int64
	pref     int
	limit    int64 // steps left in this run
	checked  int64 // steps left when the context was last checked
	err      error
}

// node is an item with its live range in sections. A section is a run of starts without an end in
// between: its last start has the largest live set.
type node struct {
	from, to int32
	size     int64
	align    int64
	twin     int32 // the node before it that is equal in all fields, -1 if there is none
}

// floorChange is one change of a placement, to undo it.
type floorChange struct {
	section int32
	node    int32
	floor   int64 // before the placement
}

// newSearch prepares the search for the items of s.
func newSearch(s *solver) *search {
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
	d.floor, d.left, d.lowest = make([]int64, count), make([]int64, count), make([]int64, count)
	d.placed, d.offsets = make([]bool, len(s.items)), make([]int64, len(s.items))
	return d
}

// sections maps the distinct starts of sorted items to sections and returns their number. Starts
// without an end in between are one section.
func sections(items []item) (section []int32, count int) {
	starts, _ := sectionTotals(items)
	ends := make([]bool, len(starts)+1) // by start: an item live at the previous start has ended
	for _, it := range items {
		t, _ := slices.BinarySearch(starts, it.end)
		ends[t] = true
	}
	section = make([]int32, len(starts))
	for t := 1; t < len(starts); t++ {
		section[t] = section[t-1]
		if ends[t] {
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

// height returns the height of the plan found, in bytes.
func (d *search) height() int64 {
	var h int64
	for i, n := range d.nodes {
		h = max(h, d.offsets[i]+n.size)
	}
	return h
}

// split divides the nodes in stack[lo:hi] into groups that share no section and searches each; it
// returns false if one group has no solution. last is the offset of the latest placement, lastRank
// the rank of its node.
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

// visit places the nodes in stack[lo:hi], which are connected by shared sections. It returns false
// if it cannot.
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
	// Deeper levels overwrite the offsets of nodes that are not placed, so that they are computed
	// again.
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

// prune computes the offset of each node in stack[lo:hi] on the current floors. ok: all may still
// fit. below is the lowest top among them: a node whose offset is not lower is not placed next.
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
		d.lowest[t] = d.capacity
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
			d.lowest[t] = min(d.lowest[t], off)
		}
	}
	for t := from; t < to; t++ {
		if d.left[t] > 0 && max(d.floor[t], d.lowest[t])+d.left[t] > d.capacity {
			return 0, false
		}
	}
	return below, true
}

// spend subtracts the steps of a visit and checks the context every 2²⁰ steps. It returns false
// when none are left.
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

// rest returns the offset of node i on the current floors.
func (d *search) rest(i int32) int64 {
	n := &d.nodes[i]
	var off int64
	for _, f := range d.floor[n.from:n.to] {
		off = max(off, f)
	}
	return alignUp(off, n.align)
}

// put places node i and records how to undo it.
func (d *search) put(i int32, off int64) {
	n := &d.nodes[i]
	d.placed[i], d.offsets[i] = true, off
	for t := n.from; t < n.to; t++ {
		d.undo = append(d.undo, floorChange{t, i, d.floor[t]})
		d.floor[t] = off + n.size
		d.left[t] -= n.size
	}
}

// revert undoes changes, newest first, until mark of them are left.
func (d *search) revert(mark int) {
	for k := len(d.undo) - 1; k >= mark; k-- {
		c := d.undo[k]
		d.floor[c.section] = c.floor
		d.left[c.section] += d.nodes[c.node].size
		d.placed[c.node] = false
	}
	d.undo = d.undo[:mark]
}

// gcd returns the greatest common divisor.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
