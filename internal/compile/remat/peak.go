package remat

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/kernels"
)

// findPeaks fills in the bytes of a tree, from the program in which nothing is dropped. They are
// estimates: dropping changes which results can be in place, and when repetitions run. The search
// measures each choice that it takes.
//
// Segment k lies between borders k and k+1. With 4 borders:
//
//	border    0           1           2           3
//	segment   ├──── 0 ────┼──── 1 ────┼──── 2 ────┤
func (t *tree) findPeaks() {
	n := len(t.borders) - 1
	segment := make([]int, len(t.p.Instrs))   // by instruction of the forward pass
	for i, k := 0, 0; i < len(segment); i++ { // both rise, as in a merge
		for k < n-1 && t.borders[k+1].at <= int32(i) {
			k++
		}
		segment[i] = k
	}
	t.backward, t.forward = make([][]int64, n), make([][]int64, n)
	for k := range n {
		t.backward[k], t.forward[k] = make([]int64, n), make([]int64, n)
	}
	t.forwardPeaks(segment)
	t.backwardPeaks(segment)
}

// forwardPeaks fills in forward and transit: the bytes while activations are made. forward counts
// the activations that have been made since border a, because all of them wait for the backward
// pass. transit counts an activation only until its last reader in the forward pass, as if it were
// dropped then. Both count the other live values and the workspace of the instruction.
func (t *tree) forwardPeaks(segment []int) {
	n := len(t.borders) - 1
	t.transit = make([]int64, n)
	isSaved := make([]bool, len(t.root))
	for _, v := range t.saved {
		isSaved[v] = true
	}
	since := make([]int64, n) // by border: bytes of activations from there on
	var open []kernels.Value  // live values of the forward pass
	var all, unsaved int64    // bytes of open, and of the values in it that the backward pass does not read
	for i := range t.p.Instrs {
		in := &t.p.Instrs[i]
		if in.Backward {
			continue
		}
		for _, o := range in.Out {
			if t.root[o] != o || t.p.Values[o].Home || t.prefetched(o) {
				continue
			}
			open, all = append(open, o), all+t.bytes[o]
			if !isSaved[o] {
				unsaved += t.bytes[o]
				continue
			}
			for a := range segment[i] + 1 { // it is after all borders up to its own
				since[a] += t.bytes[o]
			}
		}
		k := segment[i]
		workspace := arena.Round(schedule.Workspace(t.p, in, t.o.Device))
		t.transit[k] = max(t.transit[k], all+workspace)
		for a := range k + 1 {
			t.forward[k][a] = max(t.forward[k][a], since[a]+unsaved+workspace)
		}
		open = slices.DeleteFunc(open, func(v kernels.Value) bool {
			gone := t.until[v] <= int32(i)
			if gone {
				all -= t.bytes[v]
				if !isSaved[v] {
					unsaved -= t.bytes[v]
				}
			}
			return gone
		})
	}
}

// backwardPeaks fills in the bytes of the backward pass. An activation counts until its last
// reader; if a gradient is then written in place over it, its bytes count as others from then on.
//
// Invariant: others + since[0] are all bytes that are live at an instruction (live[i]).
func (t *tree) backwardPeaks(segment []int) {
	n := len(t.borders) - 1
	live, peak := schedule.Live(t.p.CloneValues(), t.o, t.space)
	t.small = peak / smallPart
	lastRead := make([]int32, len(t.root)) // by root: its last reader in the backward pass
	for i := range t.p.Instrs {
		if in := &t.p.Instrs[i]; !producesActivations(in) {
			for _, v := range in.In {
				lastRead[t.root[v]] = int32(i)
			}
		}
	}
	t.others, t.done, t.restart = make([]int64, n+1), make([]int64, n+1), make([][]int64, n+1)
	for b := range t.restart {
		t.restart[b] = make([]int64, n)
	}
	lost := t.lostAt(segment)
	since := make([]int64, n) // by border: bytes of activations from there on
	from := n                 // borders from … n have their restart: see tree
	for i := range t.p.Instrs {
		in := &t.p.Instrs[i]
		if producesActivations(in) {
			continue
		}
		// since holds the bytes of live activations by segment; below it becomes their sums from
		// each border on.
		clear(since)
		others := live[i]
		for _, v := range t.saved {
			if t.maker[v] <= int32(i) && int32(i) <= lastRead[v] {
				since[segment[t.maker[v]]] += t.bytes[v]
				others -= t.bytes[v]
			}
		}
		// If this is the first read of an activation lost at b, this instruction is the restart of
		// b, and of each later border that has none yet. The loop visits from-1, from-2, …, b.
		for _, v := range in.In {
			for b := lost[t.root[v]]; b > 0 && b < from; from-- {
				t.others[from-1] = others
				for _, w := range t.borders[from-1].crosses {
					if t.maker[w] >= t.borders[from-2].at && lastRead[w] < int32(i) {
						t.done[from-1] += t.bytes[w]
					}
				}
			}
		}
		for a := n - 2; a >= 0; a-- {
			since[a] += since[a+1]
		}
		// The segment that runs backward now is that of the last live activation. Statistics of
		// norms stay live until the end, but are too small to count.
		last := n - 1
		for last > 0 && since[last] <= t.small {
			last--
		}
		for a := range since {
			t.backward[last][a] = max(t.backward[last][a], others+since[a])
			if last+1 >= from {
				t.restart[last+1][a] = max(t.restart[last+1][a], others+since[a])
			}
		}
	}
}

// lostAt returns, indexed by root, the first border after its maker that an activation does not
// cross: if the forward pass is cut there, the activation is dropped. 0 means that it is too small
// to drop.
//
//	y is made in segment 0 and crosses border 1, not border 2: a cut at 1 keeps it, a cut at 2 loses it: lost is 2
func (t *tree) lostAt(segment []int) []int {
	lost := make([]int, len(t.root))
	for _, v := range t.saved {
		if t.bytes[v] <= t.small {
			continue
		}
		b := segment[t.maker[v]] + 1
		for b < len(t.borders)-1 && slices.Contains(t.borders[b].crosses, v) {
			b++
		}
		lost[v] = b
	}
	return lost
}
