package arena

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// solver places one component at a time: buffers whose live ranges are connected by overlaps.
// Buffers of different components never live together.
type solver struct {
	ctx    context.Context
	effort int64 // steps of search left
	target int64 // bytes; a lower plan is not better

	items   []item
	keys    [][]float64 // by order, by item: see orders
	order   []int32
	shelves shelves
	offsets []int64
	scanned int64 // buffers that a plain scan would have compared, in all components; see place
}

// found is what a solver returns for a component.
type found struct {
	offsets []int64
	height  int64 // bytes
	method  string
	optimal bool // no plan is lower, or height is at most the target
}

// spot is a placed item.
type spot struct {
	off, top   int64 // bytes
	start, end int32
}

// orders lists sort keys: items with larger keys come first, ties keep the order of the items. The
// last three orders are those of MiniMalloc (Moffitt, ASPLOS 2023, §5): lifetime, area, and the
// peak during the lifetime.
var orders = [...]struct {
	name string
	keys []int
}{
	{"size", []int{keySize}},
	{"area", []int{keyArea}},
	{"lifetime", []int{keyLife}},
	{"start", []int{keyStart}},
	{"end", []int{keyEnd}},
	{"lifetime, area, peak", []int{keyLife, keyArea, keyPeak}},
	{"peak, area, lifetime", []int{keyPeak, keyArea, keyLife}},
	{"peak, lifetime, area", []int{keyPeak, keyLife, keyArea}},
}

const (
	keySize = iota
	keyArea
	keyLife
	keyStart
	keyEnd
	keyPeak
	numKeys
)

// maxScan limits the portfolio on huge problems: compared buffers, about 2 s of one core.
const maxScan = 2_000_000_000

// solve places items, which are one component: by the portfolio, then by repair, then by the
// search.
func (s *solver) solve(items []item) (found, error) {
	s.items = items
	s.keys = itemKeys(items)
	s.offsets = make([]int64, len(items))
	best := found{offsets: make([]int64, len(items)), height: math.MaxInt64}
	for _, o := range orders {
		s.sort(o.keys)
		for _, first := range []bool{false, true} {
			if s.scanned > maxScan && best.method != "" {
				return best, nil
			}
			if err := s.cancelled(); err != nil {
				return found{}, err
			}
			height, above := s.place(first, best.height)
			if above >= 0 {
				continue
			}
			copy(best.offsets, s.offsets)
			best.height, best.method = height, method(first, o.name)
			if height <= s.target {
				best.optimal = true
				return best, nil
			}
		}
	}
	if s.effort <= 0 {
		return best, nil
	}
	best, err := s.repair(best)
	if err != nil || best.optimal || len(items) > maxSearch {
		return best, err
	}
	return s.improve(best)
}

// cancelled returns the error of the context if it is done.
func (s *solver) cancelled() error {
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("solve: %w", err)
	}
	return nil
}

// method returns the name of a gap rule and an order.
func method(first bool, order string) string {
	if first {
		return "first fit by " + order
	}
	return "best fit by " + order
}

// itemKeys returns the sort keys, by key and item. Each product is rounded once, so that keys are
// equal on all machines.
func itemKeys(items []item) [][]float64 {
	keys := make([][]float64, numKeys)
	all := make([]float64, numKeys*len(items))
	for k := range keys {
		keys[k] = all[k*len(items) : (k+1)*len(items)]
	}
	starts, totals := sectionTotals(items)
	peaks := newMaxima(totals)
	for i, it := range items {
		life := float64(it.end - it.start)
		keys[keySize][i] = float64(it.size)
		keys[keyArea][i] = float64(it.size) * life
		keys[keyLife][i] = life
		keys[keyStart][i] = -float64(it.start)
		keys[keyEnd][i] = float64(it.end)
		from, _ := slices.BinarySearch(starts, it.start)
		to, _ := slices.BinarySearch(starts, it.end)
		keys[keyPeak][i] = float64(peaks.max(from, to))
	}
	return keys
}

// maxima holds the maximum of each 1, 2, 4, … neighbours of a list, by power and first index.
type maxima [][]int64

func newMaxima(list []int64) maxima {
	m := maxima{list}
	for n := 1; 2*n <= len(list); n *= 2 {
		half := m[len(m)-1]
		all := make([]int64, len(list)-2*n+1)
		for i := range all {
			all[i] = max(half[i], half[i+n])
		}
		m = append(m, all)
	}
	return m
}

// max returns the maximum of elements from to to-1, of which there is at least one.
func (m maxima) max(from, to int) int64 {
	k := bits.Len(uint(to-from)) - 1
	return max(m[k][from], m[k][to-(1<<k)])
}

// sectionTotals returns the distinct starts of sorted items and the bytes that are live at each.
func sectionTotals(items []item) (starts []int32, totals []int64) {
	for _, it := range items {
		if n := len(starts); n == 0 || starts[n-1] != it.start {
			starts = append(starts, it.start)
		}
	}
	totals = make([]int64, len(starts)+1)
	for _, it := range items {
		from, _ := slices.BinarySearch(starts, it.start)
		to, _ := slices.BinarySearch(starts, it.end)
		totals[from] += it.size
		totals[to] -= it.size
	}
	for t := 1; t < len(totals); t++ {
		totals[t] += totals[t-1]
	}
	return starts, totals[:len(starts)]
}

// sort sets s.order to the items sorted by the keys.
func (s *solver) sort(keys []int) {
	s.order = s.order[:0]
	for i := range s.items {
		s.order = append(s.order, int32(i))
	}
	slices.SortFunc(s.order, func(a, b int32) int {
		for _, k := range keys {
			if c := cmp.Compare(s.keys[k][b], s.keys[k][a]); c != 0 {
				return c
			}
		}
		return cmp.Compare(a, b)
	})
}

// place places the items in s.order, each into the first or the tightest gap between the placed
// items that are live at the same time. It returns the height, and -1. If an item ends at limit or
// above, it stops and returns the position of that item in s.order.
//
// s.scanned grows by the items that are placed already, as if each were compared: so effort gives a
// problem one plan, however many of them the tree passes over.
func (s *solver) place(first bool, limit int64) (height int64, above int) {
	s.shelves.used = 0
	root := s.shelves.take()
	for n, i := range s.order {
		s.scanned += int64(n)
		it := &s.items[i]
		g := gapSearch{it: it, first: first, pick: -1, waste: math.MaxInt64}
		if n > 0 {
			g.search(root)
		}
		if g.pick < 0 {
			g.pick = g.cur
		}
		s.offsets[i] = g.pick
		height = max(height, g.pick+it.size)
		if height >= limit {
			return height, n
		}
		root = s.shelves.insert(root, spot{off: g.pick, top: g.pick + it.size, start: it.start, end: it.end})
	}
	return height, -1
}
