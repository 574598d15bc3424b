package arena

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
)

// scan places the items in s.order like place, by comparing each with all placed before it.
func (s *solver) scan(first bool) (offsets []int64) {
	var spots []spot
	offsets = make([]int64, len(s.items))
	for _, i := range s.order {
		it := &s.items[i]
		pick, waste, cur := int64(-1), int64(math.MaxInt64), int64(0)
		for _, p := range spots {
			if p.start >= it.end || it.start >= p.end {
				continue
			}
			if gap := p.off - cur; gap >= it.size && gap-it.size < waste {
				pick, waste = cur, gap-it.size
				if first {
					break
				}
			}
			if p.top > cur {
				cur = alignUp(p.top, it.align)
			}
		}
		if pick < 0 {
			pick = cur
		}
		offsets[i] = pick
		at, _ := slices.BinarySearchFunc(spots, pick, func(p spot, off int64) int { return cmp.Compare(p.off, off) })
		spots = slices.Insert(spots, at, spot{pick, pick + it.size, it.start, it.end})
	}
	return offsets
}

// nested makes the live ranges of a long chain: activations from the forward to the backward pass,
// and values of one or a few instructions between them.
func nested(r *rand.Rand, n int) []Buffer {
	var all []Buffer
	for i := range n {
		size := int64(1+r.IntN(4)) * int64(1+r.IntN(1000))
		b := Buffer{Size: size, Start: int32(i), End: int32(2*n - i)}
		if r.IntN(2) == 0 {
			b.Start = int32(r.IntN(2 * n))
			b.End = b.Start + 1 + int32(r.IntN(5))
		}
		if r.IntN(8) == 0 {
			b.Align = 1 << r.IntN(13)
		}
		all = append(all, b)
	}
	return all
}

// anywhere makes live ranges of any length.
func anywhere(r *rand.Rand, n int) []Buffer {
	var all []Buffer
	for range n {
		b := Buffer{Size: int64(1 + r.IntN(5000)), Start: int32(r.IntN(n)), Align: 1 << r.IntN(10)}
		b.End = b.Start + 1 + int32(r.IntN(1+r.IntN(n)))
		all = append(all, b)
	}
	return all
}

func TestTheTreePlacesLikeAScanOfAllBuffers(t *testing.T) {
	r := seed.Rand(t, 0x5e1f)
	for _, make := range []func(r *rand.Rand, n int) []Buffer{nested, anywhere} {
		for _, n := range []int{1, 31, 32, 33, 34, 300, 2500} {
			items, err := itemize(Problem{Buffers: make(r, n)})
			if err != nil {
				t.Fatal(err)
			}
			s := solver{ctx: context.Background(), items: items, keys: itemKeys(items), offsets: slices.Repeat([]int64{-1}, len(items))}
			for _, o := range orders {
				s.sort(o.keys)
				for _, first := range []bool{false, true} {
					want := s.scan(first)
					s.place(first, math.MaxInt64)
					if !slices.Equal(s.offsets, want) {
						t.Fatalf("%d buffers, %s: other offsets than by a scan", n, method(first, o.name))
					}
				}
			}
		}
	}
}

func TestPeakKeysAreTheMostLiveBytes(t *testing.T) {
	items, err := itemize(Problem{Buffers: anywhere(seed.Rand(t, 0x9eac), 200)})
	if err != nil {
		t.Fatal(err)
	}
	peaks := itemKeys(items)[keyPeak]
	for i, it := range items {
		var want int64
		for _, at := range items {
			if at.start < it.start || at.start >= it.end {
				continue
			}
			var live int64
			for _, o := range items {
				if o.start <= at.start && at.start < o.end {
					live += o.size
				}
			}
			want = max(want, live)
		}
		if peaks[i] != float64(want) {
			t.Fatalf("item %d, [%d, %d): peak %v, want %d", i, it.start, it.end, peaks[i], want)
		}
	}
}

// Nets unrolled in time: the buffers of 10,000 and 40,000 nodes.
func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"10,000 buffers", 10_000}, {"40,000 buffers", 40_000}} {
		b.Run(c.name, func(b *testing.B) {
			items, err := itemize(Problem{Buffers: nested(rand.New(rand.NewPCG(1, 2)), c.n)})
			if err != nil {
				b.Fatal(err)
			}
			s := solver{ctx: context.Background(), items: items, keys: itemKeys(items), offsets: make([]int64, len(items))}
			s.sort(orders[0].keys)
			for b.Loop() {
				s.place(false, math.MaxInt64)
			}
		})
	}
}
