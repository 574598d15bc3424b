package remat

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// border is a place between instructions of the forward pass.
type border struct {
	at      int32           // the instruction after it
	crosses []kernels.Value // roots that are made before it and that the forward pass reads after it: a cut keeps these
	bytes   int64           // of crosses
	saved   int64           // bytes of activations that are made before it
}

// borders returns the places where a cut is worth trying: (1) local minima, also wide ones, of the
// bytes that cross, (2) all places after which more bytes cross, (3) the start and the end of the
// forward pass. Between the layers of a net few values cross, inside a layer more do; the picture
// marks the minima:
//
//	bytes that cross   ▁▅▇▂▆▇▃▅▁
//	layers             │  │  │ │
func (a *analysis) borders() []border {
	var all []border
	open := make(map[kernels.Value]bool)
	var crosses []kernels.Value
	var bytes, saved int64
	all = append(all, border{})
	for i := range a.p.Instrs {
		in := &a.p.Instrs[i]
		if in.Backward {
			continue
		}
		for _, o := range in.Out {
			if a.root[o] != o || a.p.Values[o].Home || a.prefetched(o) {
				continue
			}
			if a.first[o] >= 0 && a.recomputable(o) {
				saved += a.bytes[o]
			}
			if a.until[o] > int32(i) && !open[o] {
				open[o] = true
				crosses, bytes = append(crosses, o), bytes+a.bytes[o]
			}
		}
		crosses = slices.DeleteFunc(crosses, func(v kernels.Value) bool {
			gone := a.until[v] <= int32(i)
			if gone {
				bytes -= a.bytes[v]
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
		a.addSiblings(&least[k])
	}
	return least
}

// addSiblings adds to b.crosses the other results of their makers that the backward pass reads:
// with these kept, the makers need not run again.
func (a *analysis) addSiblings(b *border) {
	for _, v := range b.crosses {
		if !a.recomputable(v) {
			continue
		}
		for _, o := range a.p.Instrs[a.maker[v]].Out {
			if a.root[o] == o && a.first[o] >= 0 && !slices.Contains(b.crosses, o) {
				b.crosses, b.bytes = append(b.crosses, o), b.bytes+a.bytes[o]
			}
		}
	}
}

// thin returns at most n+1 of the borders, with the first and the last. It divides the forward pass
// into n stretches that save about equally many bytes of activations, and keeps, of each stretch,
// the border that the fewest bytes cross.
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
