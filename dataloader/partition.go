package dataloader

import (
	"fmt"
	"math"
	"slices"
)

// SplitRandom divides the samples of ds at random into parts of the given fractions, which sum to 1.
// The seed alone fixes which sample is in which part. The sizes are the fractions of all samples,
// rounded down or up; the parts keep the order of ds and cost 8 bytes a sample. Fractions that are not
// above 0 or do not sum to 1 are errors that wrap ErrOption, a part without samples one that wraps
// ErrEmpty.
//
// Training and validation data must differ in what they show, not just in their numbers: if several
// samples come from one patient, speaker or video, use [SplitByGroup].
func SplitRandom(ds Dataset, seed uint64, fractions ...float64) ([]Dataset, error) {
	n, err := splittable(ds, fractions)
	if err != nil {
		return nil, err
	}
	return datasets(ds, randomParts(n, seed, fractions))
}

// SplitByGroup divides the samples of ds at random into parts of the given fractions, such that all
// samples of a group are in one part. groups has the group of each sample, any number. Groups come in
// a random order, each to the part that lacks most samples, so that the sizes are as near to the
// fractions as the sizes of groups allow. Each part gets a group, or it is an error that wraps
// ErrEmpty. Else it is as [SplitRandom].
func SplitByGroup(ds Dataset, groups []int, seed uint64, fractions ...float64) ([]Dataset, error) {
	n, err := splittable(ds, fractions)
	if err == nil {
		err = oneEach("groups", groups, n)
	}
	if err != nil {
		return nil, err
	}
	return datasets(ds, groupParts(groups, seed, fractions))
}

// SplitStratified divides the samples of ds at random into parts of the given fractions, such that
// each part has its fraction of each class, rounded down or up. labels has the class of each sample,
// any number. A class with fewer samples than parts is missing in some. Else it is as [SplitRandom].
func SplitStratified(ds Dataset, labels []int, seed uint64, fractions ...float64) ([]Dataset, error) {
	n, err := splittable(ds, fractions)
	if err == nil {
		err = oneEach("labels", labels, n)
	}
	if err != nil {
		return nil, err
	}
	return datasets(ds, stratifiedParts(labels, seed, fractions))
}

// Fold is one of the divisions of a cross-validation.
type Fold struct{ Train, Valid Dataset }

// KFold divides the samples of ds at random into k parts as [SplitRandom] does, and returns k folds:
// in fold i, part i validates and the others train. Each fold costs 8 bytes a sample.
func KFold(ds Dataset, seed uint64, k int) ([]Fold, error) {
	n, fractions, err := foldable(ds, k)
	if err != nil {
		return nil, err
	}
	return folds(ds, randomParts(n, seed, fractions))
}

// KFoldByGroup is KFold with the parts of [SplitByGroup].
func KFoldByGroup(ds Dataset, groups []int, seed uint64, k int) ([]Fold, error) {
	n, fractions, err := foldable(ds, k)
	if err == nil {
		err = oneEach("groups", groups, n)
	}
	if err != nil {
		return nil, err
	}
	return folds(ds, groupParts(groups, seed, fractions))
}

// KFoldStratified is KFold with the parts of [SplitStratified].
func KFoldStratified(ds Dataset, labels []int, seed uint64, k int) ([]Fold, error) {
	n, fractions, err := foldable(ds, k)
	if err == nil {
		err = oneEach("labels", labels, n)
	}
	if err != nil {
		return nil, err
	}
	return folds(ds, stratifiedParts(labels, seed, fractions))
}

// splittable checks the arguments of a split and returns the number of samples.
func splittable(ds Dataset, fractions []float64) (n int, err error) {
	if err := Check(ds); err != nil {
		return 0, err
	}
	sum := 0.0
	for i, f := range fractions {
		if !(f > 0 && f <= 1) {
			return 0, fmt.Errorf("split: fraction %d is %v: must be above 0 and at most 1: %w", i, f, ErrOption)
		}
		sum += f
	}
	if math.Abs(sum-1) > 1e-6 {
		return 0, fmt.Errorf("split: fractions %v sum to %v: must be 1: %w", fractions, sum, ErrOption)
	}
	return ds.Len(), nil
}

// foldable checks the arguments of a cross-validation and returns the number of samples and the
// fractions.
func foldable(ds Dataset, k int) (n int, fractions []float64, err error) {
	if err := Check(ds); err != nil {
		return 0, nil, err
	}
	if n = ds.Len(); k < 2 || k > n {
		return 0, nil, fmt.Errorf("k-fold: k %d of %d samples: must be 2 to the number of samples: %w", k, n, ErrOption)
	}
	for range k {
		fractions = append(fractions, 1/float64(k))
	}
	return n, fractions, nil
}

// oneEach returns an error unless there is a value for each sample.
func oneEach(what string, values []int, n int) error {
	if len(values) != n {
		return fmt.Errorf("split: %d %s for %d samples: give one for each sample: %w", len(values), what, n, ErrOption)
	}
	return nil
}

// datasets returns the parts of ds.
func datasets(ds Dataset, parts [][]int) (all []Dataset, err error) {
	for i, p := range parts {
		if len(p) == 0 {
			return nil, fmt.Errorf("split: part %d of %d: give it a larger fraction: %w", i, len(parts), ErrEmpty)
		}
		all = append(all, listOf(ds, p))
	}
	return all, nil
}

// folds returns the folds of ds.
func folds(ds Dataset, parts [][]int) (all []Fold, err error) {
	valid, err := datasets(ds, parts)
	if err != nil {
		return nil, err
	}
	n := ds.Len()
	for i, p := range parts {
		rest := make([]int, 0, n-len(p))
		for x := range n {
			if len(p) > 0 && p[0] == x {
				p = p[1:]
			} else {
				rest = append(rest, x)
			}
		}
		all = append(all, Fold{Train: listOf(ds, rest), Valid: valid[i]})
	}
	return all, nil
}

// randomParts returns the samples of each part, in increasing order.
func randomParts(n int, seed uint64, fractions []float64) (parts [][]int) {
	p := permute(n, keyOf(domainSplit, seed, 0, 0))
	next := 0
	for _, count := range deal(n, fractions, make([]float64, len(fractions))) {
		part := make([]int, count)
		for i := range part {
			part[i] = p.at(next)
			next++
		}
		slices.Sort(part)
		parts = append(parts, part)
	}
	return parts
}

// deal divides n into the given fractions, each rounded down or up. What is left after rounding down
// goes to the parts that have lost most of it so far, here and in earlier calls: lost has those sums,
// and deal adds to them.
func deal(n int, fractions, lost []float64) []int {
	counts := make([]int, len(fractions))
	left := n
	given := make([]bool, len(fractions))
	for k, f := range fractions {
		exact := f * float64(n)
		if counts[k] = int(exact); math.Abs(exact-math.Round(exact)) < min(1e-12*float64(n)+1e-9, 0.1) {
			counts[k] = int(math.Round(exact)) // so that rounding of f moves no sample
			given[k] = true
		}
		lost[k] += exact - float64(counts[k])
		left -= counts[k]
	}
	for ; left > 0; left-- {
		best := -1
		for k := range lost {
			if !given[k] && (best < 0 || lost[k] > lost[best]+1e-9) {
				best = k
			}
		}
		if best < 0 { // fractions whose sum is not quite 1
			best = len(lost) - 1
		} else {
			given[best] = true
		}
		counts[best]++
		lost[best]--
	}
	for ; left < 0; left++ {
		counts[slices.Index(counts, slices.Max(counts))]--
	}
	return counts
}

// groupParts returns the samples of each part, in increasing order.
func groupParts(groups []int, seed uint64, fractions []float64) [][]int {
	g := listClasses(groups)
	parts := make([][]int, len(fractions))
	lacking := make([]float64, len(fractions))
	for k, f := range fractions {
		lacking[k] = f * float64(len(groups))
	}
	p := permute(len(g.members), keyOf(domainSplit, seed, 0, 1))
	empty := len(parts)
	for i := range g.members {
		members := g.members[p.at(i)]
		best := -1
		for k := range parts {
			if empty == len(g.members)-i && len(parts[k]) > 0 { // the last groups are for parts without one
				continue
			}
			if best < 0 || lacking[k] > lacking[best] {
				best = k
			}
		}
		if best < 0 {
			break
		}
		if len(parts[best]) == 0 {
			empty--
		}
		parts[best] = append(parts[best], members...)
		lacking[best] -= float64(len(members))
	}
	for _, part := range parts {
		slices.Sort(part)
	}
	return parts
}

// stratifiedParts returns the samples of each part, in increasing order.
func stratifiedParts(labels []int, seed uint64, fractions []float64) [][]int {
	c := listClasses(labels)
	parts := make([][]int, len(fractions))
	lost := make([]float64, len(fractions))
	for k, members := range c.members {
		p := permute(len(members), keyOf(domainSplit, seed, 0, uint64(k)+2))
		next := 0
		for i, count := range deal(len(members), fractions, lost) {
			for range count {
				parts[i] = append(parts[i], members[p.at(next)])
				next++
			}
		}
	}
	for _, part := range parts {
		slices.Sort(part)
	}
	return parts
}
