package dataloader_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// sequence returns the order of an epoch.
func sequence(t *testing.T, s dataloader.Sampler, n int, seed uint64, epoch int) dataloader.Sequence {
	t.Helper()
	q, err := s.Epoch(n, seed, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// whole returns the indices of a sequence.
func whole(q dataloader.Sequence) []int {
	all := make([]int, q.Len())
	for i := range all {
		all[i] = q.Index(i)
	}
	return all
}

// samplers returns one of each kind for 60 samples of 4 classes.
func samplers(t *testing.T) (labels []int, all map[string]dataloader.Sampler) {
	t.Helper()
	weights, lengths := make([]float64, 60), make([]int, 60)
	for i := range 60 {
		labels = append(labels, []int{7, 7, 7, -1, 7, 7, 3, 7, 7, 100}[i%10])
		weights[i], lengths[i] = float64(i%3), i*7%23
	}
	all = map[string]dataloader.Sampler{}
	add := func(name string, s dataloader.Sampler, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = s
	}
	s, err := dataloader.Weighted(weights, dataloader.WeightedOptions{Count: 100})
	add("weighted", s, err)
	s, err = dataloader.Weighted(weights, dataloader.WeightedOptions{Count: 30, Distinct: true})
	add("distinct", s, err)
	s, err = dataloader.ClassBalanced(labels, 0)
	add("balanced", s, err)
	s, err = dataloader.Stratified(labels, 8)
	add("stratified", s, err)
	s, err = dataloader.Bucketed(lengths, 8, 2)
	add("bucketed", s, err)
	return labels, all
}

func TestSamplersDependOnSeedAndEpochOnlyAndAllocateNothing(t *testing.T) {
	_, all := samplers(t)
	for name, s := range all {
		a := whole(sequence(t, s, 60, 5, 2))
		q := sequence(t, s, 60, 5, 2)
		for i := len(a) - 1; i >= 0; i-- { // in another order of positions
			if x := q.Index(i); x != a[i] {
				t.Fatalf("%s: position %d is %d, was %d", name, i, x, a[i])
			}
		}
		for what, b := range map[string][]int{"epoch": whole(sequence(t, s, 60, 5, 3)), "seed": whole(sequence(t, s, 60, 6, 2))} {
			if len(b) != len(a) || slices.Equal(a, b) {
				t.Errorf("%s: another %s has the order %v, too", name, what, b)
			}
		}
		i := 0
		if n := testing.AllocsPerRun(50, func() { q.Index(i % q.Len()); i++ }); n != 0 {
			t.Errorf("%s: Index allocates %v times", name, n)
		}
		if _, err := s.Epoch(61, 5, 2); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: for another number of samples: %v", name, err)
		}
	}
}

func TestSamplersResumeExactlyWithAnotherNumberOfWorkers(t *testing.T) {
	_, all := samplers(t)
	for name, s := range all {
		ds, q := &fake{n: 60}, sequence(t, s, 60, 3, 1)
		l := open(t, ds, dataloader.Options{Batch: 8, Seed: 3, Sampler: s, Workers: 3})
		whole, err := drain(t, l, 1, slots(ds, 2, 8))
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range whole.Indices {
			if want := q.Index(i); x != want || whole.IDs[i] != want {
				t.Fatalf("%s: position %d has index %d and sample %d, want %d", name, i, x, whole.IDs[i], want)
			}
		}
		l = open(t, ds, dataloader.Options{Batch: 8, Seed: 3, Sampler: s, Workers: 1})
		place := slots(ds, 2, 8)
		r, err := l.EpochFrom(t.Context(), 1, 2, place)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Next(t.Context())
		if err != nil || !slices.Equal(b.Indices, whole.Indices[16:24]) {
			t.Errorf("%s: resumed at step 2 with %v, %v, want %v", name, b.Indices, err, whole.Indices[16:24])
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWeightedDrawsInProportion(t *testing.T) {
	weights := []float64{1, 0, 3, 0.5, 1e-3, 7, 0, 2}
	s, err := dataloader.Weighted(weights, dataloader.WeightedOptions{Count: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]float64, len(weights))
	for _, x := range whole(sequence(t, s, len(weights), 1, 0)) {
		counts[x]++
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		p := w / sum
		want, deviation := 200_000*p, math.Sqrt(200_000*p*(1-p))
		if math.Abs(counts[i]-want) > 5*deviation {
			t.Errorf("sample %d of weight %v came %v times, want %.0f ± %.0f", i, w, counts[i], want, deviation)
		}
	}
}

func TestWeightedWithoutReplacementDrawsEachOnceAndTheHeavyFirst(t *testing.T) {
	weights := []float64{1, 0, 3, 6}
	s, err := dataloader.Weighted(weights, dataloader.WeightedOptions{Count: 3, Distinct: true})
	if err != nil {
		t.Fatal(err)
	}
	first, second := make([]float64, 4), 0.0
	const epochs = 20_000
	for e := range epochs {
		all := whole(sequence(t, s, 4, 1, e))
		first[all[0]]++
		if all[0] == 3 && all[1] == 2 {
			second++
		}
		slices.Sort(all)
		if !slices.Equal(all, []int{0, 2, 3}) {
			t.Fatalf("epoch %d has the samples %v", e, all)
		}
	}
	for i, w := range weights {
		if p := w / 10; math.Abs(first[i]/epochs-p) > 5*math.Sqrt(p*(1-p)/epochs)+1e-12 {
			t.Errorf("sample %d came first in %v of epochs, want %v", i, first[i]/epochs, p)
		}
	}
	if p := 0.6 * 3 / 4; math.Abs(second/epochs-p) > 5*math.Sqrt(p*(1-p)/epochs) {
		t.Errorf("samples 3, 2 came first in %v of epochs, want %v", second/epochs, p)
	}
}

func TestClassBalancedHasEachClassOnceInEachRound(t *testing.T) {
	labels, all := samplers(t)
	q := sequence(t, all["balanced"], 60, 9, 0)
	times := map[int]int{}
	for round := 0; round < 60/4; round++ {
		seen := map[int]bool{}
		for i := range 4 {
			x := q.Index(4*round + i)
			seen[labels[x]] = true
			times[x]++
		}
		if len(seen) != 4 {
			t.Fatalf("round %d has the classes %v", round, seen)
		}
	}
	for x, y := range labels { // 15 draws of a class: of 6 samples each 2 or 3 times, of 42 each 0 or 1
		low, high := 2, 3
		if y == 7 {
			low, high = 0, 1
		}
		if times[x] < low || times[x] > high {
			t.Errorf("sample %d of class %d came %d times, want %d to %d", x, y, times[x], low, high)
		}
	}
}

func TestStratifiedBatchesHaveTheClassesInProportion(t *testing.T) {
	rng := random(t)
	for range 200 {
		n, classes := 1+rng.IntN(120), 1+rng.IntN(9)
		labels, sizes := make([]int, n), map[int]int{}
		for i := range labels {
			labels[i] = rng.IntN(1 + rng.IntN(classes))
			sizes[labels[i]]++
		}
		batch := 1 + rng.IntN(n)
		s, err := dataloader.Stratified(labels, batch)
		if err != nil {
			t.Fatal(err)
		}
		all := whole(sequence(t, s, n, rng.Uint64(), rng.IntN(5)))
		rest := map[int]int{} // of each class, in the last batch
		for _, x := range all[n/batch*batch:] {
			rest[labels[x]]++
		}
		for b := range n / batch {
			counts := map[int]int{}
			for _, x := range all[b*batch : (b+1)*batch] {
				counts[labels[x]]++
			}
			for y, size := range sizes {
				exact := float64(size-rest[y]) / float64(n/batch)
				if c := float64(counts[y]); c < math.Floor(exact) || c > math.Ceil(exact) {
					t.Fatalf("n %d, batch %d: batch %d has %v of class %d, want %v rounded", n, batch, b, c, y, exact)
				}
			}
		}
		for y, size := range sizes {
			if exact := float64(n%batch) * float64(size) / float64(n); math.Abs(float64(rest[y])-exact) >= 1 {
				t.Fatalf("n %d, batch %d: the last batch has %d of class %d, want %v rounded", n, batch, rest[y], y, exact)
			}
		}
		slices.Sort(all)
		for i, x := range all {
			if x != i {
				t.Fatalf("n %d, batch %d: the epoch has the samples %v", n, batch, all)
			}
		}
	}
}

func TestBucketedBatchesHaveNearLengths(t *testing.T) {
	rng := random(t)
	lengths := make([]int, 1003)
	for i := range lengths {
		lengths[i] = rng.IntN(500)
	}
	s, err := dataloader.Bucketed(lengths, 10, 50)
	if err != nil {
		t.Fatal(err)
	}
	all := whole(sequence(t, s, len(lengths), 3, 1))
	spread, last := 0, 0
	sorted := 0 // batches that are longer than the one before
	for b := range 100 {
		low, high := 500, 0
		for _, x := range all[10*b : 10*b+10] {
			low, high = min(low, lengths[x]), max(high, lengths[x])
		}
		spread += high - low
		if low > last {
			sorted++
		}
		last = low
	}
	if spread > 100*25 { // 10 of 500 sorted lengths out of 500 lie within 10; at random within 410
		t.Errorf("batches span %d lengths on average", spread/100)
	}
	if sorted > 70 {
		t.Errorf("%d of 100 batches are longer than the one before: they are not shuffled", sorted)
	}
	slices.Sort(all)
	for i, x := range all {
		if x != i {
			t.Fatal("the epoch does not have each sample once")
		}
	}
}

func TestWrongArgumentsOfSamplersAreErrors(t *testing.T) {
	weighted := func(w []float64, o dataloader.WeightedOptions) error { _, err := dataloader.Weighted(w, o); return err }
	balanced := func(l []int, n int) error { _, err := dataloader.ClassBalanced(l, n); return err }
	stratified := func(l []int, n int) error { _, err := dataloader.Stratified(l, n); return err }
	bucketed := func(l []int, b, p int) error { _, err := dataloader.Bucketed(l, b, p); return err }
	for i, err := range []error{
		weighted(nil, dataloader.WeightedOptions{}), weighted([]float64{0, 0}, dataloader.WeightedOptions{}),
		weighted([]float64{1, -1}, dataloader.WeightedOptions{}), weighted([]float64{1, math.NaN()}, dataloader.WeightedOptions{}),
		weighted([]float64{math.MaxFloat64, math.MaxFloat64}, dataloader.WeightedOptions{}), weighted([]float64{1}, dataloader.WeightedOptions{Count: -1}),
		weighted([]float64{1, 0}, dataloader.WeightedOptions{Count: 2, Distinct: true}),
		balanced(nil, 0), balanced([]int{1}, -1), stratified([]int{1}, 0), stratified([]int{1}, 2), stratified(nil, 1),
		bucketed(nil, 1, 1), bucketed([]int{1}, 0, 1), bucketed([]int{1}, 1, -1), bucketed([]int{-1}, 1, 1), bucketed([]int{1}, math.MaxInt, 2),
	} {
		if !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("case %d: got %v", i, err)
		}
	}
}
