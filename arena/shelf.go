package arena

import (
	"math"
	"slices"
)

// shelfWidth is the most spots or shelves of a shelf.
const shelfWidth = 16

// A shelf is a node of a B+ tree of placed items, sorted by offset, those at one offset by start. It
// sums up its items, so that a search for a gap can pass over most of them:
//
//	├ off                    items            top ┤
//	████████··gap··██████████████··██████████████
//
// Invariant: a shelf that is not the root has at least one item.
type shelf struct {
	spots []spot   // of a leaf
	kids  []*shelf // of an inner node

	off, top           int64 // bytes: the lowest offset and the highest top
	gap                int64 // bytes: the most between items that all live at once
	minStart, maxStart int32
	minEnd, maxEnd     int32
}

// update sums up a leaf or an inner node.
func (s *shelf) update() {
	s.gap, s.minStart, s.minEnd, s.maxStart, s.maxEnd = 0, math.MaxInt32, math.MaxInt32, 0, 0
	for i := range s.spots {
		p := &s.spots[i]
		s.include(i == 0, p.off, p.top, 0, p.start, p.start, p.end, p.end)
	}
	for i, k := range s.kids {
		s.include(i == 0, k.off, k.top, k.gap, k.minStart, k.maxStart, k.minEnd, k.maxEnd)
	}
}

// include adds items above those before.
func (s *shelf) include(first bool, off, top, gap int64, minStart, maxStart, minEnd, maxEnd int32) {
	if first {
		s.off, s.top = off, top
	}
	s.gap = max(s.gap, gap, off-s.top)
	s.top = max(s.top, top)
	s.minStart, s.maxStart = min(s.minStart, minStart), max(s.maxStart, maxStart)
	s.minEnd, s.maxEnd = min(s.minEnd, minEnd), max(s.maxEnd, maxEnd)
}

// A gapSearch looks for the place of an item between placed items that are live at the same time.
type gapSearch struct {
	it    *item
	first bool  // the first gap that is large enough; else the tightest, of several the lowest
	pick  int64 // its offset in bytes, -1: none
	waste int64 // bytes that it has too many
	cur   int64 // bytes: no live item seen so far reaches above it
}

// search visits the items of s in order, and reports whether it is done.
func (g *gapSearch) search(s *shelf) bool {
	it := g.it
	if s.minStart >= it.end || it.start >= s.maxEnd || s.top <= g.cur {
		return false // none is live, or all end below
	}
	if s.maxStart < it.end && it.start < s.minEnd && s.gap < it.size && s.off-g.cur < it.size {
		g.cur = max(g.cur, alignUp(s.top, it.align)) // all are live, and too close together
		return false
	}
	for _, k := range s.kids {
		if g.search(k) {
			return true
		}
	}
	for i := range s.spots {
		p := &s.spots[i]
		if p.start >= it.end || it.start >= p.end {
			continue
		}
		if gap := p.off - g.cur; gap >= it.size && gap-it.size < g.waste {
			g.pick, g.waste = g.cur, gap-it.size
			if g.first {
				return true
			}
		}
		if p.top > g.cur {
			g.cur = alignUp(p.top, it.align)
		}
	}
	return false
}

// shelves makes shelves, and uses those of an earlier tree again.
type shelves struct {
	all  []*shelf
	used int
}

// take returns an empty shelf.
func (a *shelves) take() *shelf {
	if a.used == len(a.all) {
		a.all = append(a.all, new(shelf))
	}
	s := a.all[a.used]
	a.used++
	s.spots, s.kids = s.spots[:0], s.kids[:0]
	return s
}

// insert puts p into the tree of root and returns the root, which may be new.
func (a *shelves) insert(root *shelf, p spot) *shelf {
	right := a.insertBelow(root, p)
	if right == nil {
		return root
	}
	top := a.take()
	top.kids = append(top.kids, root, right)
	top.update()
	return top
}

// insertBelow puts p into the tree of s. Where s is full it becomes two shelves: the right one is
// returned.
func (a *shelves) insertBelow(s *shelf, p spot) (right *shelf) {
	if len(s.kids) == 0 {
		at := 0
		for at < len(s.spots) && before(s.spots[at].off, s.spots[at].start, p) {
			at++
		}
		s.spots = slices.Insert(s.spots, at, p)
	} else {
		at := 0
		for at+1 < len(s.kids) && s.kids[at+1].startsBefore(p) {
			at++
		}
		if k := a.insertBelow(s.kids[at], p); k != nil {
			s.kids = slices.Insert(s.kids, at+1, k)
		}
	}
	if n := max(len(s.spots), len(s.kids)); n > shelfWidth {
		right = a.take()
		if len(s.kids) == 0 {
			right.spots = append(right.spots, s.spots[n/2:]...)
			s.spots = s.spots[:n/2]
		} else {
			right.kids = append(right.kids, s.kids[n/2:]...)
			s.kids = s.kids[:n/2]
		}
		right.update()
	}
	s.update()
	return right
}

// startsBefore reports whether the first item of s comes before p.
func (s *shelf) startsBefore(p spot) bool {
	for len(s.kids) > 0 {
		s = s.kids[0]
	}
	return before(s.spots[0].off, s.spots[0].start, p)
}

// before reports whether an item at off that starts at start comes before p.
func before(off int64, start int32, p spot) bool {
	return off < p.off || off == p.off && start < p.start
}
