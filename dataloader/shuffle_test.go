package dataloader_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// order returns the indices of an epoch.
func order(t testing.TB, n, workers int, seed uint64, epoch int) []int {
	ds := &fake{n: n}
	s, err := drain(t, open(t, ds, dataloader.Options{Batch: 3, Shuffle: true, Seed: seed, Workers: workers}), epoch, slots(ds, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	return s.Indices
}

func TestOrderIsThatOfAllReleases(t *testing.T) {
	// Recorded when the package was written: a change here breaks the resumption of every run that was saved.
	if got, want := fmt.Sprint(order(t, 10, 2, 42, 3)), golden; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	at := dataloader.At{Index: 7, Epoch: 3, Seed: 42}
	r := at.Rand()
	if got, want := fmt.Sprintf("%#x", r.Uint64()), goldenDraw; got != want {
		t.Errorf("got draw %s, want %s", got, want)
	}
}

const (
	golden     = "[8 6 5 4 2 9 7 0 3 1]"
	goldenDraw = "0x1d9290b9d88a2800"
)

func TestOrderIsAPermutationOfSeedAndEpochAlone(t *testing.T) {
	rng := random(t)
	for range 20 {
		n, seed, epoch := 1+rng.IntN(200), rng.Uint64(), rng.IntN(100)
		first := order(t, n, 1, seed, epoch)
		for _, workers := range []int{2, 8} {
			if got := order(t, n, workers, seed, epoch); !slices.Equal(got, first) {
				t.Fatalf("n %d seed %d epoch %d: %d workers got %v, want %v", n, seed, epoch, workers, got, first)
			}
		}
		if n >= 20 {
			if slices.Equal(first, order(t, n, 1, seed, epoch+1)) || slices.Equal(first, order(t, n, 1, seed+1, epoch)) {
				t.Fatalf("n %d seed %d epoch %d: another seed or epoch gives the same order", n, seed, epoch)
			}
		}
		sorted := slices.Sorted(slices.Values(first))
		for i, x := range sorted {
			if int(x) != i || len(sorted) != n {
				t.Fatalf("n %d: got %v, not a permutation", n, first)
			}
		}
	}
}

func TestEveryOrderIsEquallyLikely(t *testing.T) {
	for _, c := range []struct{ n, orders, epochs int }{{2, 2, 10000}, {3, 6, 12000}, {4, 24, 48000}, {5, 120, 60000}, {6, 720, 72000}} {
		count := map[[6]int]int{}
		for epoch := range c.epochs {
			s := dataloader.Shuffled(c.n, 1, epoch)
			var order [6]int
			for i := range c.n {
				order[i] = s.Index(i)
			}
			count[order]++
		}
		all := make([]int, 0, c.orders)
		for _, k := range count {
			all = append(all, k)
		}
		// The seed is fixed, so this is no lottery.
		if z := chiSquared(all); len(all) != c.orders || z > 4 {
			t.Errorf("%d samples: %d orders, want %d; chi-squared is %.1f standard deviations from that of chance", c.n, len(all), c.orders, z)
		}
	}
}

func TestDrawsAreDistinctAcrossSamplesAndEpochsAndAllocateNothing(t *testing.T) {
	for _, seed := range []uint64{0, 1, 1 << 63} {
		draws := map[uint64]bool{}
		for epoch := range 30 {
			for i := range 300 {
				r := dataloader.At{Index: i, Epoch: epoch, Seed: seed}.Rand()
				draws[r.Uint64()] = true
			}
		}
		if len(draws) != 9000 {
			t.Errorf("seed %d: got %d distinct draws, want 9000", seed, len(draws))
		}
	}
	var sum float64
	if got := testing.AllocsPerRun(100, func() {
		r := dataloader.At{Index: 5}.Rand()
		sum += r.Float64() + float64(r.IntN(10))
	}); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func TestRandStaysInItsRangeAndFillsIt(t *testing.T) {
	r := dataloader.At{Seed: 9}.Rand()
	var hits [7]int
	sum := 0.0
	for range 70000 {
		hits[r.IntN(7)]++
		x := r.Float64()
		if x < 0 || x >= 1 {
			t.Fatalf("got %v, want [0, 1)", x)
		}
		sum += x
	}
	for i, h := range hits { // 10000 expected, standard deviation 93
		if h < 9600 || h > 10400 {
			t.Errorf("%d came %d times, want about 10000", i, h)
		}
	}
	if mean := sum / 70000; mean < 0.495 || mean > 0.505 { // standard deviation 0.0011
		t.Errorf("mean %v, want about 0.5", mean)
	}
	if got := r.IntN(0) + r.IntN(-5); got != 0 {
		t.Errorf("IntN below 1: got %d, want 0", got)
	}
}
