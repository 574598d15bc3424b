package compile

import (
	"cmp"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Bounds of the search.
const (
	mostDrops  = 400 // activations that are dropped one by one
	mostRounds = 4   // of dropping one by one
	mostKept   = 100 // activations of which it is tried whether they need to be dropped
)

// search returns what to drop so that the peak is within budget bytes at the least extra work, or what has the lowest peak that it can find. It
// takes the better of two heuristics, and, where that is not enough, drops of what they compute again.
func (r *remat) search(budget int64) choice {
	best := choice{rounds: []round{r.nothing()}}
	if r.measure(&best); best.peak <= budget {
		return best
	}
	limit := r.limit()
	take := func(x choice) {
		if x.work <= limit && x.better(&best, budget) {
			best = x
		}
	}
	r.onebyone(nil, budget, take)
	r.trees(budget, take)
	for range mostRounds {
		peak := best.peak
		if peak <= budget {
			break
		}
		d := r.c.copied()
		d.rematOf(r.apply(d, best.rounds)).onebyone(best.rounds, budget, take)
		if best.peak == peak {
			break
		}
	}
	return best
}

// limit returns the most extra work that is looked for: that of the program without, so that a step takes no more than twice as long.
func (r *remat) limit() (work int64) {
	for _, w := range r.work {
		work += w
	}
	return work
}

// polish keeps what need not be dropped: of what is, beginning with what takes most work to have again, whatever makes the choice a better one if it is kept, or
// dropped in fewer rounds.
func (r *remat) polish(best *choice, budget int64) {
	cost := r.costs(&best.rounds[0])
	again := slices.DeleteFunc(slices.Clone(r.saved), func(v kernels.Value) bool { return best.depth(v) == 0 })
	slices.SortStableFunc(again, func(a, b kernels.Value) int { return cmp.Compare(cost[b], cost[a]) })
	for _, v := range again[:min(len(again), mostKept)] {
		for depth := range best.depth(v) {
			x := best.copied()
			for k := depth; k < len(x.rounds); k++ {
				x.rounds[k].drop[v] = false
			}
			x.trim()
			if r.measure(&x); x.better(best, budget) {
				*best = x
				break
			}
		}
	}
}

// depth returns in how many rounds x drops v.
func (x *choice) depth(v kernels.Value) (n int) {
	for k := range x.rounds {
		if x.rounds[k].drop[v] {
			n = k + 1
		}
	}
	return n
}

// copied returns a copy of x of which rounds may be changed.
func (x *choice) copied() choice {
	y := choice{rounds: slices.Clone(x.rounds)}
	for k := range y.rounds {
		y.rounds[k].drop = slices.Clone(y.rounds[k].drop)
	}
	return y
}

// onebyone drops, at the instruction where most is live, the activation with most bytes times instructions that it idles for its recomputation's
// work, and looks again, until the peak is within the budget or nothing at the peak can be dropped. It is a round after those before.
// Source: the score of Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, section 3.
func (r *remat) onebyone(before []round, budget int64, take func(choice)) {
	x := r.nothing()
	for range min(len(r.saved), mostDrops) {
		d := r.c.copied()
		now := r.rewrite(d, &x)
		live, peak := d.lived()
		take(choice{append(slices.Clone(before), round{slices.Clone(x.drop), x.keep}), peak, now.extra})
		if peak <= budget {
			return
		}
		at := int32(slices.Index(live, peak))
		cost := r.costs(&x)
		pick, score := kernels.None, 0.0
		for _, v := range r.saved {
			if x.drop[r.origin[v]] {
				continue
			}
			until := now.positions[max(r.until[v], r.maker[v])]
			next := now.positions[r.first[v]]
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
		x.drop[r.origin[pick]] = true
	}
}

// costs returns, by value, the work of having it again in the backward pass: its own, and that of operands that are not there either.
func (r *remat) costs(x *round) []int64 {
	cost := make([]int64, len(r.root))
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		if !early(in) {
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
	least = append(least, all[len(all)-1])
	for k := range least {
		r.siblings(&least[k])
	}
	return least
}

// siblings adds to what crosses b what the backward pass reads of the other results of its makers: with these kept, they need not run again.
func (r *remat) siblings(b *border) {
	for _, v := range b.crosses {
		if !r.again(v) {
			continue
		}
		for _, o := range r.c.Instrs[r.maker[v]].Out {
			if r.root[o] == o && r.first[o] >= 0 && !slices.Contains(b.crosses, o) {
				b.crosses, b.bytes = append(b.crosses, o), b.bytes+r.bytes[o]
			}
		}
	}
}
