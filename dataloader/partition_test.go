package dataloader_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// ids returns the ids of all samples of a dataset made of a fake one.
func ids(t *testing.T, ds dataloader.Dataset) []int {
	t.Helper()
	all := make([]int, ds.Len())
	for i := range all {
		all[i] = int(dataloader.View[int32](fetched(t, ds, i)["id"])[0])
	}
	return all
}

// eachOnce fails unless the parts have the numbers below n once each, in increasing order in a part.
func eachOnce(t *testing.T, n int, parts ...[]int) {
	t.Helper()
	all := slices.Concat(parts...)
	for _, p := range parts {
		if !slices.IsSorted(p) {
			t.Fatalf("part %v is not sorted", p)
		}
	}
	slices.Sort(all)
	for i, x := range all {
		if x != i || len(all) != n {
			t.Fatalf("the parts %v do not have the samples below %d once", parts, n)
		}
	}
}

func TestRandomSplitsHaveEachSampleOnceAndTheirSizes(t *testing.T) {
	rng := random(t)
	for range 100 {
		ds := &fake{n: 10 + rng.IntN(200)}
		seed := rng.Uint64()
		parts, err := dataloader.SplitRandom(ds, seed, 0.7, 0.2, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]int
		for k, p := range parts {
			got = append(got, ids(t, p))
			if exact := float64(ds.n) * []float64{0.7, 0.2, 0.1}[k]; math.Abs(float64(p.Len())-exact) >= 1-1e-9 {
				t.Errorf("part %d of %d has %d samples", k, ds.n, p.Len())
			}
		}
		eachOnce(t, ds.n, got...)
		again, err := dataloader.SplitRandom(ds, seed, 0.7, 0.2, 0.1)
		if err != nil || !slices.Equal(ids(t, again[0]), got[0]) || dataloader.Fingerprint(again[0]) != dataloader.Fingerprint(parts[0]) {
			t.Errorf("the same seed gives %v, %v", again, err)
		}
		other, err := dataloader.SplitRandom(ds, seed+1, 0.7, 0.2, 0.1)
		if err != nil || slices.Equal(ids(t, other[0]), got[0]) || dataloader.Fingerprint(other[0]) == dataloader.Fingerprint(parts[0]) {
			t.Errorf("another seed gives the same part, %v", err)
		}
	}
}

func TestGroupsAreNotDivided(t *testing.T) {
	rng := random(t)
	for range 100 {
		ds := &fake{n: 200}
		groups := make([]int, ds.n)
		for i := range groups {
			groups[i] = 3 * rng.IntN(40)
		}
		parts, err := dataloader.SplitByGroup(ds, groups, rng.Uint64(), 0.8, 0.2)
		if err != nil {
			t.Fatal(err)
		}
		a, b := ids(t, parts[0]), ids(t, parts[1])
		eachOnce(t, ds.n, a, b)
		in := map[int]bool{}
		for _, x := range a {
			in[groups[x]] = true
		}
		for _, x := range b {
			if in[groups[x]] {
				t.Fatalf("group %d is on both sides", groups[x])
			}
		}
		if len(b) < 25 || len(b) > 60 { // 40 wanted, groups of about 5
			t.Errorf("the part of 0.2 has %d of 200 samples", len(b))
		}
	}
	// One giant group and as many small ones as are needed: no part may be empty.
	groups := slices.Concat(slices.Repeat([]int{1}, 197), []int{2, 3, 4})
	for seed := range uint64(20) {
		parts, err := dataloader.SplitByGroup(&fake{n: 200}, groups, seed, 0.97, 0.01, 0.01, 0.01)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if p.Len() < 1 {
				t.Errorf("seed %d: a part is empty", seed)
			}
		}
	}
	_, err := dataloader.SplitByGroup(&fake{n: 4}, []int{1, 1, 1, 1}, 0, 0.5, 0.5)
	if !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("one group for two parts: %v", err)
	}
}

func TestStratifiedSplitsKeepTheClasses(t *testing.T) {
	rng := random(t)
	fractions := []float64{0.6, 0.25, 0.15}
	for range 100 {
		ds := &fake{n: 100 + rng.IntN(200)}
		labels, sizes := make([]int, ds.n), map[int]int{}
		for i := range labels {
			labels[i] = rng.IntN(1 + rng.IntN(12))
			sizes[labels[i]]++
		}
		parts, err := dataloader.SplitStratified(ds, labels, rng.Uint64(), fractions...)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]int
		for k, p := range parts {
			got = append(got, ids(t, p))
			counts := map[int]int{}
			for _, x := range got[k] {
				counts[labels[x]]++
			}
			for y, size := range sizes {
				if exact := fractions[k] * float64(size); math.Abs(float64(counts[y])-exact) >= 1-1e-9 {
					t.Fatalf("part %d has %d of the %d samples of class %d", k, counts[y], size, y)
				}
			}
			if exact := fractions[k] * float64(ds.n); math.Abs(float64(p.Len())-exact) > 2 {
				t.Errorf("part %d has %d of %d samples", k, p.Len(), ds.n)
			}
		}
		eachOnce(t, ds.n, got...)
	}
}

func TestFoldsValidateEachSampleOnce(t *testing.T) {
	ds := &fake{n: 53}
	labels, groups := make([]int, ds.n), make([]int, ds.n)
	for i := range labels {
		labels[i], groups[i] = i%3, i/4
	}
	plain, err := dataloader.KFold(ds, 1, 5)
	byGroup, err2 := dataloader.KFoldByGroup(ds, groups, 1, 5)
	stratified, err3 := dataloader.KFoldStratified(ds, labels, 1, 5)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	for name, folds := range map[string][]dataloader.Fold{"plain": plain, "group": byGroup, "stratified": stratified} {
		var valid [][]int
		for i, f := range folds {
			train, v := ids(t, f.Train), ids(t, f.Valid)
			eachOnce(t, ds.n, train, v)
			valid = append(valid, v)
			if name != "group" && (len(v) < 10 || len(v) > 11) {
				t.Errorf("%s: fold %d validates %d of 53", name, i, len(v))
			}
			for _, x := range v {
				for _, y := range train {
					if name == "group" && groups[x] == groups[y] {
						t.Fatalf("group %d is on both sides", groups[x])
					}
				}
			}
		}
		eachOnce(t, ds.n, valid...)
		if len(folds) != 5 {
			t.Errorf("%s: %d folds", name, len(folds))
		}
	}
}

func TestWrongSplitsNameTheCulprit(t *testing.T) {
	ds := &fake{n: 10}
	first := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"indices[1] is 10":      first(dataloader.SubsetOf(ds, []int{0, 10})),
		"indices[0] is -1":      first(dataloader.SubsetOf(ds, []int{-1})),
		"fraction 1 is 0":       first(dataloader.SplitRandom(ds, 0, 1, 0)),
		"fraction 0 is NaN":     first(dataloader.SplitRandom(ds, 0, math.NaN())),
		"sum to 0.75":           first(dataloader.SplitRandom(ds, 0, 0.5, 0.25)),
		"sum to 0:":             first(dataloader.SplitRandom(ds, 0)),
		"3 groups for 10":       first(dataloader.SplitByGroup(ds, []int{1, 2, 3}, 0, 0.5, 0.5)),
		"3 labels for 10":       first(dataloader.SplitStratified(ds, []int{1, 2, 3}, 0, 0.5, 0.5)),
		"k 1 of 10":             first(dataloader.KFold(ds, 0, 1)),
		"k 11 of 10":            first(dataloader.KFoldStratified(ds, make([]int, 10), 0, 11)),
		"nil dataset":           first(dataloader.KFoldByGroup(nil, nil, 0, 2)),
		"without: bad sample 0": first(dataloader.Without(ds, []dataloader.BadSample{{Index: 12}})),
	} {
		if !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	for i, err := range []error{first(dataloader.SubsetOf(ds, nil)), first(dataloader.SplitRandom(ds, 0, 0.999, 0.001))} {
		if !errors.Is(err, dataloader.ErrEmpty) {
			t.Errorf("case %d: got %v", i, err)
		}
	}
}
