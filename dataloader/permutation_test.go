package dataloader_test

import (
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

func TestTheOrderIsAPermutationForAnyLength(t *testing.T) {
	rng := random(t)
	check := func(n int) {
		s := dataloader.Shuffled(n, rng.Uint64(), rng.IntN(10))
		seen := make([]bool, n)
		for i := range n {
			x := s.Index(i)
			if x < 0 || x >= n || seen[x] {
				t.Fatalf("n %d: position %d has index %d, out of range or a second time", n, i, x)
			}
			seen[x] = true
		}
	}
	for n := 1; n <= 300; n++ {
		check(n)
	}
	for _, n := range []int{4095, 4096, 4097, 65535, 65536, 65537, 99991} {
		check(n)
	}
}

// Beyond 2³¹ the whole order is too long to read: distinct positions must have distinct indices.
func TestTheOrderHasNoLimitOf31Bits(t *testing.T) {
	for _, n := range []int{1<<31 + 1, 1 << 40, 1<<56 - 3} {
		s := dataloader.Shuffled(n, 7, 0)
		seen, large := map[int]bool{}, 0
		for i := range 50_000 {
			x := s.Index(n - 1 - i)
			if x < 0 || x >= n || seen[x] {
				t.Fatalf("n %d: position %d has index %d, out of range or a second time", n, n-1-i, x)
			}
			if seen[x] = true; x >= n/2 {
				large++
			}
		}
		if large < 24_300 || large > 25_700 { // 25,000 expected, standard deviation 112
			t.Errorf("n %d: %d of 50,000 indices are in the upper half", n, large)
		}
	}
}

// chiSquared returns how far counts are from equal ones, in standard deviations of chi-squared.
func chiSquared(counts []int) float64 {
	sum, chi2 := 0, 0.0
	for _, c := range counts {
		sum += c
	}
	want := float64(sum) / float64(len(counts))
	for _, c := range counts {
		chi2 += (float64(c) - want) * (float64(c) - want) / want
	}
	free := float64(len(counts) - 1)
	return (chi2 - free) / math.Sqrt(2*free)
}

// Over many epochs each sample comes at each position equally often, each sample follows each other
// equally often, and samples far apart too. The seeds are fixed, so these are no lotteries.
func TestPositionsAndNeighboursAreEquallyLikely(t *testing.T) {
	for _, c := range []struct{ n, epochs int }{{5, 20000}, {16, 20000}, {37, 12000}, {64, 10000}, {100, 10000}} {
		at, next, far := make([]int, c.n*c.n), make([]int, c.n*c.n), make([]int, c.n*c.n)
		for epoch := range c.epochs {
			s := dataloader.Shuffled(c.n, 3, epoch)
			first := s.Index(0)
			for i, x := 0, first; i < c.n; i++ {
				at[i*c.n+x]++
				y := first
				if i+1 < c.n {
					y = s.Index(i + 1)
				}
				next[x*c.n+y]++
				x = y
			}
			i := epoch % (c.n / 2) // one pair an epoch: pairs of one permutation depend on each other
			far[s.Index(i)*c.n+s.Index(i+c.n/2)]++
		}
		pairs := func(all []int) (off []int) { // no sample follows itself
			for k, v := range all {
				if k/c.n != k%c.n {
					off = append(off, v)
				}
			}
			return off
		}
		for name, counts := range map[string][]int{"positions": at, "neighbours": pairs(next), "far pairs": pairs(far)} {
			// Counts within a permutation exclude each other, which makes their chi-squared vary a little less.
			if z := chiSquared(counts); math.Abs(z) > 4.5 {
				t.Errorf("n %d: %s: chi-squared is %.1f standard deviations from that of chance", c.n, name, z)
			}
		}
	}
}

// In one long order, an index says nothing about the next one.
func TestNeighboursInALongOrderAreIndependent(t *testing.T) {
	const n, cells = 1_000_000, 32
	for seed := range uint64(3) {
		s := dataloader.Shuffled(n, seed, 0)
		positions, pairs, steps := make([]int, cells*cells), make([]int, cells*cells), make([]int, cells)
		last := s.Index(n - 1)
		for i := range n {
			x := s.Index(i)
			positions[i*cells/n*cells+x*cells/n]++
			pairs[last*cells/n*cells+x*cells/n]++
			steps[(x-last+n)%n*cells/n]++
			last = x
		}
		for name, counts := range map[string][]int{"positions": positions, "pairs": pairs, "steps": steps} {
			if z := chiSquared(counts); math.Abs(z) > 4.5 {
				t.Errorf("seed %d: %s: chi-squared is %.1f standard deviations from that of chance", seed, name, z)
			}
		}
	}
}

func TestSeedsAndEpochsHaveOrdersOfTheirOwn(t *testing.T) {
	const n = 1000
	var orders [][]int
	for seed := range uint64(5) {
		for epoch := range 5 {
			s, all := dataloader.Shuffled(n, seed, epoch), make([]int, n)
			for i := range all {
				all[i] = s.Index(i)
			}
			orders = append(orders, all)
		}
	}
	for i, a := range orders {
		for _, b := range orders[:i] {
			same := 0
			for k := range a {
				if a[k] == b[k] {
					same++
				}
			}
			if same > 9 { // 1 expected: more than 9 has probability 1e-7
				t.Errorf("two orders have the same index at %d of %d positions", same, n)
			}
		}
	}
	if s := dataloader.Shuffled(n, 1, 1); !slices.Equal([]int{s.Index(0), s.Index(1), s.Index(2)}, orders[1*5+1][:3]) {
		t.Error("the same seed and epoch have another order")
	}
}

func BenchmarkIndex(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"60k", 60_000}, {"1M", 1 << 20}, {"8G", 1 << 33}} {
		b.Run(c.name, func(b *testing.B) {
			s := dataloader.Shuffled(c.n, 1, 0)
			sum, i := 0, 0
			for b.Loop() {
				sum += s.Index(i)
				if i++; i == c.n {
					i = 0
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mindices/s")
			if sum < 0 {
				b.Fatal(sum)
			}
		})
	}
}
