package remat

import (
	"math"
	"slices"
	"sort"
)

// Bounds of the search for trees.
const (
	mostBorders = 96 // places at which the forward pass may be cut
	// Activations of at most 1/smallPart of the peak are not worth dropping, such as statistics of
	// norms, which stay until the end.
	smallPart  = 1024
	units      = 96 // in which the bytes that a tree may use are counted
	leastTrees = 8  // trees that are measured where none fits the budget: those with the lowest predicted peaks
)

// tree cuts the forward pass at borders. A part of it, from border a to border b, runs backward
// once all its activations exist. Or it is cut in two at k: what crosses k is kept while the right
// half runs backward; then the left half is computed again and runs backward.
//
//	a ────────► k ────────► b
//	            └─ right half: backward through k…b
//	a ─again──► k
//	└─ left half: backward through a…k
//
// Dynamic programming finds the least work for each part and each number of bytes. The bytes are
// the values kept at the borders before, the activations of the part that are still needed, and all
// other values that are live at an instruction of the backward pass. A left half that is cut in its
// turn is computed a third time, in another round.
//
// Source: Griewank and Walther, Algorithm 799, ACM TOMS 26(1), 2000, where all steps are equal;
// Beaumont et al., Optimal checkpointing for heterogeneous chains, arXiv:1911.13214, sections 4 and
// 5, for steps of any size. Ours also handles graphs that are no chains, where several values
// cross.
type tree struct {
	*analysis
	borders []border // segment k lies between borders k and k+1
	small   int64    // bytes that are not worth dropping

	// Peaks in bytes, by segment k and border a, measured where nothing is dropped. Activations
	// that are made before a do not count: the dynamic program adds those of them that are kept.
	//
	// Invariant: a ≤ k, and both rise along the forward pass; entries with a > k are not read.
	backward [][]int64 // of the backward pass while its last live activation is of segment k
	forward  [][]int64 // of the forward pass in segment k
	transit  []int64   // by segment: the peak of its forward pass where no activation is kept

	// The restart of border b is the instruction of the backward pass that first needs a value from
	// before b. The segments before b are computed again right before it, so that at this time two
	// sets are live: gradients and the rest of the backward pass, and the repeated forward pass.
	//
	// restart[b][a] is the peak while segment b-1 runs backward, counted from the restart of b on;
	// activations made before a do not count.
	restart [][]int64
	others  []int64 // by border: live bytes at its restart that are not activations
	done    []int64 // by border b: bytes of segment b-1 that are kept at b and that nothing reads after the restart of b

	// The solution.
	prefix []int64 // by border: work of the recomputable instructions before it
	unit   int64   // bytes of one unit; budgets m are whole numbers of units, from 0 to the constant units
	least  []int64 // by index at(a, b, m): least extra work of part a…b in m units, or infeasible
	cut    []int16 // by the same index: the border k at which the part is cut in two, 0 for none
}

// infeasible is the work of a tree that does not exist.
const infeasible = math.MaxInt64 / 4

// trees calls take with the choices of the trees that are predicted to need the least work within
// the budget, or, where none is within it, have the lowest peaks. Each is measured first.
func (a *analysis) trees(budget int64, take func(choice)) {
	t := a.newTree(budget)
	if t == nil {
		return
	}
	try := func(m int) int64 {
		x := t.choice(m)
		a.measure(&x)
		take(x)
		return x.peak
	}
	// The peak of a tree as predicted is not exact: measure, and find the most units that fit by
	// bisection. More units mean less work, so the last one that fits is the best.
	// steps are each m whose least work is within the limit and below that of m-1 units; the others
	// bring nothing.
	var steps []int
	for m, last := 0, a.limit()+1; m <= units; m++ {
		if w := t.least[t.at(0, len(t.borders)-1, m)]; w < last {
			steps, last = append(steps, m), w
		}
	}
	tried := make([]bool, len(steps))
	most := sort.Search(len(steps), func(k int) bool {
		tried[k] = true
		return try(steps[k]) > budget
	})
	if most > 0 {
		return
	}
	for k := range min(len(steps), leastTrees) {
		if !tried[k] {
			try(steps[k])
		}
	}
}

// newTree returns a solved tree. Its largest number of units is the budget, or more bytes if no
// tree within the budget is within the limit of work. It returns nil where there is no border to
// cut at.
func (a *analysis) newTree(budget int64) *tree {
	t := a.cuts()
	if t == nil {
		return nil
	}
	n := len(t.borders) - 1
	t.prefix = make([]int64, n+1)
	for k := range n {
		t.prefix[k+1] = t.prefix[k]
		for i := t.borders[k].at; i < t.borders[k+1].at; i++ {
			if in := &a.p.Instrs[i]; !in.Backward && len(in.Out) > 0 && a.recomputable(in.Out[0]) {
				t.prefix[k+1] += a.work[i]
			}
		}
	}
	// Units are coarse where the budget is far above leastPeak; near it they are fine. Where no
	// tree within the budget has little enough work, allow a quarter more bytes.
	most := t.needs(0, n)
	leastPeak := t.leastPeak()
	for top := min(most, max(budget, leastPeak+leastPeak/4)); ; top = min(most, top+top/4) {
		t.unit = (top + units - 1) / units
		if t.solve(); top == most || t.least[t.at(0, n, units)] <= a.limit() {
			return t
		}
	}
}

// cuts returns a tree that is not solved, nil where there is no border to cut at.
func (a *analysis) cuts() *tree {
	t := &tree{analysis: a, borders: thin(a.borders(), mostBorders)}
	if len(t.borders) < 3 {
		return nil
	}
	t.findPeaks()
	return t
}

// needs returns the bytes of the part from a to b where it is not cut. It is the most of
//
//	backward[k][a]                       while segments b-2 … a run backward
//	restart[b][a]                        while segment b-1, the last one, runs backward
//	others[b] + forward[k][a]            while the part is computed again for the part after b
//	others[b] + forward[b-1][a] - done   the same, in segment b-1: what was kept at b and is read already, done[b], is not made again
func (t *tree) needs(a, b int) (most int64) {
	for k := a; k < b-1; k++ {
		most = max(most, t.backward[k][a], t.others[b]+t.forward[k][a])
	}
	return max(most, t.restart[b][a], t.others[b]+t.forward[b-1][a]-t.done[b])
}

// keeps returns the bytes that are kept at border k of a part that begins at a, and the work of the
// instructions that then need not run again. Values from before a do not count: they are kept at a
// or an earlier border already.
func (t *tree) keeps(a, k int) (bytes, work int64) {
	for _, v := range t.borders[k].crosses {
		if i := t.maker[v]; i >= t.borders[a].at {
			bytes += t.bytes[v]
			if t.recomputable(v) {
				work += t.work[i]
			}
		}
	}
	return bytes, work
}

// leastPeak returns the lowest predicted peak of any tree, whatever its work. It is the recurrence
// of solve with bytes instead of work:
//
//	leastPeak(a, b) = min(needs(a, b), min over k of
//	                      max(transit to k, kept(k) + leastPeak(k, b), leastPeak(a, k)))
func (t *tree) leastPeak() int64 {
	n := len(t.borders) - 1
	least := make([][]int64, n+1)
	for a := n - 1; a >= 0; a-- {
		least[a] = make([]int64, n+1)
		kept := make([]int64, n+1)
		for b := a + 1; b <= n; b++ {
			kept[b], _ = t.keeps(a, b)
			least[a][b] = t.needs(a, b)
			transit := t.others[b]
			for k := a + 1; k < b; k++ {
				transit = max(transit, t.others[b]+t.transit[k-1])
				least[a][b] = min(least[a][b], max(transit, kept[k]+least[k][b], least[a][k]))
			}
		}
	}
	return least[0][n]
}

// at returns the index, in least and cut, of the part from border a to border b with m units.
func (t *tree) at(a, b, m int) int { return (a*len(t.borders)+b)*(units+1) + m }

// count returns bytes in units, rounded.
func (t *tree) count(bytes int64) int { return int((bytes + t.unit/2) / t.unit) }

// solve finds the least work of all parts, each after the parts that it can be cut into:
//
//	least(a, b, m) = 0, where the whole part needs at most m units, else the least over all k of
//	                 least(k, b, m - kept(k)) + again(a, k) + least(a, k, m)
//
// kept(k) are the units that cross border k. again(a, k) is the work of the left half, without the
// instructions that make kept values. A border k counts only where the forward pass from a to k,
// which keeps nothing on its way, needs at most m units.
//
// For 2 segments, borders 0, 1, 2, the only cut is k = 1: segment 1 runs backward with kept(1)
// units less, then segment 0 is computed again and runs backward with all m units.
func (t *tree) solve() {
	n := len(t.borders) - 1
	t.least = make([]int64, t.at(n, n, units)+1)
	t.cut = make([]int16, len(t.least))
	kept, again := make([]int, n+1), make([]int64, n+1)
	for a := n - 1; a >= 0; a-- {
		for b := a + 1; b <= n; b++ {
			bytes, saved := t.keeps(a, b)
			kept[b], again[b] = t.count(bytes), max(0, t.prefix[b]-t.prefix[a]-saved)
			least, cut := t.least[t.at(a, b, 0):][:units+1], t.cut[t.at(a, b, 0):][:units+1]
			whole := t.count(t.needs(a, b))
			for m := range least {
				if m < whole {
					least[m] = infeasible
				}
			}
			transit := t.others[b]
			for k := a + 1; k < b; k++ {
				transit = max(transit, t.others[b]+t.transit[k-1])
				right := t.least[t.at(k, b, 0):][:units+1]
				left := t.least[t.at(a, k, 0):][:units+1]
				for m := max(kept[k], t.count(transit)); m < min(whole, units+1); m++ {
					if w := right[m-kept[k]] + again[k] + left[m]; w < least[m] {
						least[m], cut[m] = w, int16(k)
					}
				}
			}
		}
	}
}

// choice returns the rounds of the tree with m units: one for each depth of left halves. A left
// half has depth 0 if it lies in no other left half, 1 if it lies in one of depth 0, and so on.
// Round d drops what the left halves of depth d compute again. A kept value stays kept in all
// deeper rounds.
func (t *tree) choice(m int) choice {
	var x choice
	var split func(a, b, m, depth int)
	split = func(a, b, m, depth int) {
		if depth == len(x.rounds) {
			x.rounds = append(x.rounds, t.emptyRound())
			if depth > 0 {
				copy(x.rounds[depth].keep, x.rounds[depth-1].keep)
			}
		}
		k := int(t.cut[t.at(a, b, m)])
		if k == 0 {
			return
		}
		for d := range x.rounds[depth:] {
			for _, v := range t.borders[k].crosses {
				x.rounds[depth+d].keep[v] = true
			}
		}
		for _, v := range t.saved {
			i := t.maker[v]
			inside := t.borders[a].at <= i && i < t.borders[k].at && !slices.Contains(t.borders[k].crosses, v)
			if inside && t.bytes[v] > t.small {
				x.rounds[depth].drop[v] = true
			}
		}
		bytes, _ := t.keeps(a, k)
		split(k, b, m-t.count(bytes), depth)
		split(a, k, m, depth+1)
	}
	split(0, len(t.borders)-1, m, 0)
	x.trim()
	return x
}
