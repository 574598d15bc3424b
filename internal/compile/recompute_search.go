package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Bounds of the search.
const (
	segmentTrials = 20  // sizes of segments that are tried
	mostDrops     = 400 // activations that are dropped one by one
)

// search returns what to drop so that the peak is within budget bytes at the least extra work, or what has the lowest peak that it can find. It
// takes the better of two heuristics.
func (r *remat) search(budget int64) choice {
	best := r.nothing()
	if r.measure(&best); best.peak <= budget {
		return best
	}
	take := func(x choice) {
		if x.better(&best, budget) {
			best = x
		}
	}
	r.onebyone(budget, take)
	r.segments(budget, take)
	return best
}

// onebyone drops, at the instruction where most is live, the activation with most bytes times instructions that it idles for its recomputation's
// work, and looks again, until the peak is within the budget or nothing at the peak can be dropped.
// Source: the score of Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, section 3.
func (r *remat) onebyone(budget int64, take func(choice)) {
	x := r.nothing()
	for range min(len(r.saved), mostDrops) {
		live, positions := r.measure(&x)
		take(choice{slices.Clone(x.drop), x.keep, x.peak, x.work})
		if x.peak <= budget {
			return
		}
		at := int32(slices.Index(live, x.peak))
		cost := r.costs(&x)
		pick, score := kernels.None, 0.0
		for _, v := range r.saved {
			if x.drop[v] {
				continue
			}
			until := positions[max(r.until[v], r.maker[v])]
			next := positions[r.first[v]]
			if until >= at || next <= at {
				continue
			}
			if s := float64(r.bytes[v]) * float64(next-until) / float64(max(cost[v], 1)); s > score {
				pick, score = v, s
			}
		}
		if pick == kernels.None {
			return
		}
		x.drop[pick] = true
	}
}

// costs returns, by value, the work of having it again in the backward pass: its own, and that of operands that are not there either.
func (r *remat) costs(x *choice) []int64 {
	cost := make([]int64, len(r.root))
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		if in.Back {
			continue
		}
		total := r.work[i]
		for _, v := range in.In {
			if !r.stays(x, v) {
				total += cost[v]
			}
		}
		for _, o := range in.Out {
			cost[o] = total
		}
	}
	return cost
}

// segments cuts the forward pass where few bytes cross, keeps what crosses, and computes each segment again as a whole before its backward pass; but
// for the last one, whose backward pass comes at once. Segments that begin earlier may be larger, since while one runs backwards,
// only what was cut off before it is kept. Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174,
// and Griewank and Walther, Algorithm 799, ACM TOMS 26(1), 2000, for segments of falling size.
func (r *remat) segments(budget int64, take func(choice)) {
	borders := r.borders()
	low, high := budget/4, r.total()
	for range segmentTrials {
		size := low + (high-low)/2
		x, ok := r.cutInto(borders, size)
		if !ok {
			low = size
			continue
		}
		r.measure(&x)
		take(x)
		if x.peak <= budget {
			low = size // larger segments leave more of the end alone
		} else {
			high = size
		}
	}
}

// total returns the bytes of all activations that the backward pass reads.
func (r *remat) total() (n int64) {
	for _, v := range r.saved {
		n += r.bytes[v]
	}
	return n
}

// border is a place between instructions of the forward pass.
type border struct {
	at      int32           // the instruction after it
	crosses []kernels.Value // roots that are made before it and read by the forward pass after it
	bytes   int64           // of those
	saved   int64           // bytes of activations that are made before it
}

// borders returns the places where what crosses has a local minimum, from the start to the end of the forward pass.
func (r *remat) borders() []border {
	var all []border
	open := make(map[kernels.Value]bool)
	var crosses []kernels.Value
	var bytes, saved int64
	all = append(all, border{})
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		if in.Back {
			continue
		}
		for _, o := range in.Out {
			if r.root[o] != o || r.c.Values[o].Home || r.transferred(o) {
				continue
			}
			if r.first[o] >= 0 && r.again(o) {
				saved += r.bytes[o]
			}
			if r.until[o] > int32(i) && !open[o] {
				open[o] = true
				crosses, bytes = append(crosses, o), bytes+r.bytes[o]
			}
		}
		crosses = slices.DeleteFunc(crosses, func(v kernels.Value) bool {
			gone := r.until[v] <= int32(i)
			if gone {
				bytes -= r.bytes[v]
			}
			return gone
		})
		all = append(all, border{int32(i) + 1, slices.Clone(crosses), bytes, saved})
	}
	least := []border{all[0]}
	for i := 1; i < len(all)-1; i++ {
		if all[i].bytes <= all[i-1].bytes && all[i].bytes <= all[i+1].bytes || all[i].bytes < all[i+1].bytes {
			least = append(least, all[i])
		}
	}
	return append(least, all[len(all)-1])
}

// cutInto returns segments of which none keeps more than size bytes, counting what is kept at the borders before it, with as large a last segment, which
// is not computed again, as can be. ok is false where there are none.
func (r *remat) cutInto(borders []border, size int64) (x choice, ok bool) {
	end := len(borders) - 1
	for tail := range borders {
		at, kept, used := 0, int64(0), []int{}
		for at < tail {
			next := at
			for k := at + 1; k <= tail && kept+borders[k].saved-borders[at].saved <= size; k++ {
				next = k
			}
			if next == at {
				break
			}
			at = next
			kept += borders[at].bytes
			used = append(used, at)
		}
		if at < tail || kept+borders[end].saved-borders[tail].saved > size {
			continue
		}
		x = r.nothing()
		for _, k := range used {
			for _, v := range borders[k].crosses {
				x.keep[v] = true
			}
		}
		for _, v := range r.saved {
			x.drop[v] = r.maker[v] < borders[tail].at && !x.keep[v]
		}
		return x, true
	}
	return x, false
}
