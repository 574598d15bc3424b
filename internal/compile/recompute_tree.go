package compile

import (
	"math"
	"slices"
	"sort"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Bounds of the search for trees.
const (
	mostBorders = 96   // places at which the forward pass may be cut
	smallPart   = 1024 // of the peak is too little to be dropped, as statistics of norms are, which are read until the end
	units       = 96   // in which the bytes that a tree may have are counted
	leastTrees  = 8    // how many trees are tried of those that promise the lowest peaks
)

// tree cuts the forward pass where few bytes cross. A part of it, from border a to border b, has its backward pass once all that it makes is there, or it is
// cut in two: what crosses is kept while the right part has its turn, and the left part is then computed again, and has its own.
//
//	a ───────► k ───────► b
//	           └ right: backward through k…b
//	a ──again─► k
//	└ left: backward through a…k
//
// Least work for so many bytes is found for all parts by dynamic programming, where bytes are what is kept at the borders before, activations of the part that are
// not yet done with, and what else lives at an instruction of the backward pass. A left part that is cut in its turn is computed a third time, in another round.
// Source: Griewank and Walther, Algorithm 799, ACM TOMS 26(1), 2000, where all steps are equal; Beaumont et al., Optimal checkpointing for heterogeneous
// chains, arXiv:1911.13214, sections 4 and 5, for steps of any size. Ours also takes graphs that are no chains, where more than one value crosses.
type tree struct {
	r       *remat
	borders []border
	alive   [][]int64 // by segment k, by border a: most bytes at a late instruction whose last activation is of k, without activations from before a
	made    [][]int64 // the same at an early instruction of k, where all activations are kept
	passing []int64   // by segment: most bytes at one of its early instructions, where none are kept
	first   [][]int64 // by border b, by border a: as alive[b-1][a], from where the part before b is computed again
	waiting []int64   // by border: bytes that are no activations from before it where that is
	gone    []int64   // by border: bytes of what crosses it and has been read for the last time by then, of the segment before it
	work    []int64   // by border: of what can be computed again before it
	unit    int64     // bytes
	small   int64     // bytes that do not matter
	least   []int64   // by part and units: extra work, none where it cannot be
	cut     []int16   // by part and units: the border at which the part is cut in two, 0 for none
}

// none is the work of what cannot be.
const none = math.MaxInt64 / 4

// trees tries the trees that promise least work within the budget, or, where none is within it, those with the lowest peaks.
func (r *remat) trees(budget int64, take func(choice)) {
	t := r.newTree(budget)
	if t == nil {
		return
	}
	try := func(m int) int64 {
		x := t.choice(m)
		r.measure(&x)
		take(x)
		return x.peak
	}
	var steps []int // numbers of units with which less work is to be had than with one less
	for m, last := 0, r.limit()+1; m <= units; m++ {
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

// newTree returns a tree for what is within the budget, or, where there is none of no more than the most work, for the least that there is. It is nil where there is nothing to cut.
func (r *remat) newTree(budget int64) *tree {
	t := r.cuts()
	if t == nil {
		return nil
	}
	n := len(t.borders) - 1
	t.work = make([]int64, n+1)
	for k := range n {
		t.work[k+1] = t.work[k]
		for i := t.borders[k].at; i < t.borders[k+1].at; i++ {
			if in := &r.c.Instrs[i]; !in.Back && len(in.Out) > 0 && r.again(in.Out[0]) {
				t.work[k+1] += r.work[i]
			}
		}
	}
	most := t.needs(0, n)
	reach := t.reach()
	for top := min(most, max(budget, reach+reach/4)); ; top = min(most, top+top/4) {
		t.unit = (top + units - 1) / units
		if t.solve(); top == most || t.least[t.at(0, n, units)] <= r.limit() {
			return t
		}
	}
}

// cuts returns a tree that is not solved yet.
func (r *remat) cuts() *tree {
	t := &tree{r: r, borders: thin(r.borders(), mostBorders)}
	if len(t.borders) < 3 {
		return nil
	}
	t.weigh()
	return t
}

// thin returns at most n+1 of the borders: of as many stretches of equally many saved bytes the border with the fewest that cross.
func thin(borders []border, n int) []border {
	if len(borders) <= n+1 {
		return borders
	}
	end := borders[len(borders)-1]
	kept := []border{borders[0]}
	stretch := func(b border) int64 { return b.saved * int64(n) / (end.saved + 1) }
	for k := 1; k < len(borders)-1; k++ {
		last := &kept[len(kept)-1]
		switch b := borders[k]; {
		case len(kept) == 1 || stretch(*last) < stretch(b):
			kept = append(kept, b)
		case b.bytes < last.bytes:
			*last = b
		}
	}
	return append(kept, end)
}

// weigh fills in what lives where nothing is dropped.
func (t *tree) weigh() {
	r, n := t.r, len(t.borders)-1
	segment := make([]int, len(r.c.Instrs)) // by early instruction
	for i, k := 0, 0; i < len(segment); i++ {
		for k < n-1 && t.borders[k+1].at <= int32(i) {
			k++
		}
		segment[i] = k
	}
	t.alive, t.made = make([][]int64, n), make([][]int64, n)
	for k := range n {
		t.alive[k], t.made[k] = make([]int64, n), make([]int64, n)
	}
	t.forth(segment)
	t.back(segment)
}

// forth fills in what lives as activations are made.
func (t *tree) forth(segment []int) {
	r, n := t.r, len(t.borders)-1
	t.passing = make([]int64, n)
	kept := make([]bool, len(r.root))
	for _, v := range r.saved {
		kept[v] = true
	}
	since := make([]int64, n) // by border: what is kept from there on
	var open []kernels.Value
	var passing, loose int64 // bytes of open, and of those of them that are not kept
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		if in.Back {
			continue
		}
		for _, o := range in.Out {
			if r.root[o] != o || r.c.Values[o].Home || r.transferred(o) {
				continue
			}
			open, passing = append(open, o), passing+r.bytes[o]
			if !kept[o] {
				loose += r.bytes[o]
				continue
			}
			for a := range segment[i] + 1 {
				since[a] += r.bytes[o]
			}
		}
		k := segment[i]
		work := arena.Round(r.c.workspace(in))
		t.passing[k] = max(t.passing[k], passing+work)
		for a := range k + 1 {
			t.made[k][a] = max(t.made[k][a], since[a]+loose+work)
		}
		open = slices.DeleteFunc(open, func(v kernels.Value) bool {
			gone := r.until[v] <= int32(i)
			if gone {
				passing -= r.bytes[v]
				if !kept[v] {
					loose -= r.bytes[v]
				}
			}
			return gone
		})
	}
}

// back fills in what lives in the backward pass. An activation is done with where it is read last, though its bytes may live on as those of a gradient.
func (t *tree) back(segment []int) {
	r, n := t.r, len(t.borders)-1
	live, peak := r.c.copied().lived()
	t.small = peak / smallPart
	until := make([]int32, len(r.root)) // by root: the last late instruction that reads it
	for i := range r.c.Instrs {
		if in := &r.c.Instrs[i]; !early(in) {
			for _, v := range in.In {
				until[r.root[v]] = int32(i)
			}
		}
	}
	t.waiting, t.gone, t.first = make([]int64, n+1), make([]int64, n+1), make([][]int64, n+1)
	for b := range t.first {
		t.first[b] = make([]int64, n)
	}
	lost := t.lost(segment)
	since := make([]int64, n) // by border: activations from there on
	from := n                 // the parts before this border and all later ones are there
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		if early(in) {
			continue
		}
		clear(since)
		others := live[i]
		for _, v := range r.saved {
			if r.maker[v] <= int32(i) && int32(i) <= until[v] {
				since[segment[r.maker[v]]] += r.bytes[v]
				others -= r.bytes[v]
			}
		}
		for _, v := range in.In {
			for b := lost[r.root[v]]; b > 0 && b < from; from-- {
				t.waiting[from-1] = others
				for _, w := range t.borders[from-1].crosses {
					if r.maker[w] >= t.borders[from-2].at && until[w] < int32(i) {
						t.gone[from-1] += r.bytes[w]
					}
				}
			}
		}
		for a := n - 2; a >= 0; a-- {
			since[a] += since[a+1]
		}
		last := n - 1
		for last > 0 && since[last] <= t.small {
			last--
		}
		for a := range since {
			t.alive[last][a] = max(t.alive[last][a], others+since[a])
			if last+1 >= from {
				t.first[last+1][a] = max(t.first[last+1][a], others+since[a])
			}
		}
	}
}

// lost returns, by root, the first border after which what the backward pass reads is dropped with the part before: that it does not cross. 0 is none.
func (t *tree) lost(segment []int) []int {
	lost := make([]int, len(t.r.root))
	for _, v := range t.r.saved {
		if t.r.bytes[v] <= t.small {
			continue
		}
		b := segment[t.r.maker[v]] + 1
		for b < len(t.borders)-1 && slices.Contains(t.borders[b].crosses, v) {
			b++
		}
		lost[v] = b
	}
	return lost
}

// needs returns the bytes of the part from a to b where it is not cut.
func (t *tree) needs(a, b int) (most int64) {
	for k := a; k < b-1; k++ {
		most = max(most, t.alive[k][a], t.waiting[b]+t.made[k][a])
	}
	return max(most, t.first[b][a], t.waiting[b]+t.made[b-1][a]-t.gone[b])
}

// keeps returns the bytes that are kept for the border k of a part that begins at a, and the work that this spares.
func (t *tree) keeps(a, k int) (bytes, work int64) {
	for _, v := range t.borders[k].crosses {
		if i := t.r.maker[v]; i >= t.borders[a].at {
			bytes += t.r.bytes[v]
			if t.r.again(v) {
				work += t.r.work[i]
			}
		}
	}
	return bytes, work
}

// reach returns the fewest bytes with which there is a tree.
func (t *tree) reach() int64 {
	n := len(t.borders) - 1
	least := make([][]int64, n+1)
	for a := n - 1; a >= 0; a-- {
		least[a] = make([]int64, n+1)
		kept := make([]int64, n+1)
		for b := a + 1; b <= n; b++ {
			kept[b], _ = t.keeps(a, b)
			least[a][b] = t.needs(a, b)
			passing := t.waiting[b]
			for k := a + 1; k < b; k++ {
				passing = max(passing, t.waiting[b]+t.passing[k-1])
				least[a][b] = min(least[a][b], max(passing, kept[k]+least[k][b], least[a][k]))
			}
		}
	}
	return least[0][n]
}

// at returns the index of the part from a to b with m units.
func (t *tree) at(a, b, m int) int { return (a*len(t.borders)+b)*(units+1) + m }

// count returns bytes in units.
func (t *tree) count(bytes int64) int { return int((bytes + t.unit/2) / t.unit) }

// solve finds the least work of all parts.
func (t *tree) solve() {
	n := len(t.borders) - 1
	t.least = make([]int64, t.at(n, n, units)+1)
	t.cut = make([]int16, len(t.least))
	kept, again := make([]int, n+1), make([]int64, n+1)
	for a := n - 1; a >= 0; a-- {
		for b := a + 1; b <= n; b++ {
			bytes, spared := t.keeps(a, b)
			kept[b], again[b] = t.count(bytes), max(0, t.work[b]-t.work[a]-spared)
			least, cut := t.least[t.at(a, b, 0):][:units+1], t.cut[t.at(a, b, 0):][:units+1]
			whole := t.count(t.needs(a, b))
			for m := range least {
				if m < whole {
					least[m] = none
				}
			}
			passing := t.waiting[b]
			for k := a + 1; k < b; k++ {
				passing = max(passing, t.waiting[b]+t.passing[k-1])
				right, left := t.least[t.at(k, b, 0):][:units+1], t.least[t.at(a, k, 0):][:units+1]
				for m := max(kept[k], t.count(passing)); m < min(whole, units+1); m++ {
					if w := right[m-kept[k]] + again[k] + left[m]; w < least[m] {
						least[m], cut[m] = w, int16(k)
					}
				}
			}
		}
	}
}

// choice returns the rounds of the tree with m units.
func (t *tree) choice(m int) choice {
	var x choice
	var split func(a, b, m, depth int)
	split = func(a, b, m, depth int) {
		if depth == len(x.rounds) {
			x.rounds = append(x.rounds, t.r.nothing())
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
		for _, v := range t.r.saved {
			if i := t.r.maker[v]; t.r.bytes[v] > t.small && t.borders[a].at <= i && i < t.borders[k].at && !slices.Contains(t.borders[k].crosses, v) {
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
