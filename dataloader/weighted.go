package dataloader

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// WeightedOptions of Weighted.
type WeightedOptions struct {
	// Count is the number of positions of an epoch. 0: the number of weights.
	Count int
	// Distinct draws without replacement: no sample comes twice in an epoch, the next one is drawn
	// from those that are left, and Count is at most the number of weights above 0. It costs 16 bytes
	// a sample and a sort in each epoch. Default: each position is drawn from all samples.
	Distinct bool
}

// identity is what a checkpoint keeps of a sampler: it is encoded as JSON.
type identity struct {
	Samples int    // of the dataset
	Count   int    // positions of an epoch
	Data    uint64 // hash of the weights, classes or lengths, and of the options
}

// fits returns an error for a dataset of another length.
func (s *identity) fits(what string, n int) error {
	if n != s.Samples {
		return fmt.Errorf("%s of %d samples for a dataset of %d: give one for each sample: %w", what, s.Samples, n, ErrOption)
	}
	return nil
}

// Weighted returns a sampler that draws samples with probabilities in proportion to their weights,
// which must be finite and 0 or more. Which sample a position has depends on the seed, the epoch and
// the position only. With replacement it keeps a table of 16 bytes a sample (Walker's alias method),
// and a position costs the same for any number of samples. The weights are copied. Wrong weights and
// options are errors that wrap ErrOption.
func Weighted(weights []float64, opt WeightedOptions) (Sampler, error) {
	sum, positive := 0.0, 0
	h := hash(domainWeighted)
	for i, w := range weights {
		if !finite(w) || w < 0 {
			return nil, fmt.Errorf("weight %d is %v: must be finite and 0 or more: %w", i, w, ErrOption)
		}
		if sum += w; w > 0 {
			positive++
		}
		h = hash(h, math.Float64bits(w))
	}
	if positive == 0 || !finite(sum) {
		return nil, fmt.Errorf("%d weights with sum %v: it must be finite and more than 0: %w", len(weights), sum, ErrOption)
	}
	count := opt.Count
	if count == 0 {
		count = len(weights)
	}
	most := maxSamples
	if opt.Distinct {
		most = positive
	}
	if count < 1 || count > most {
		return nil, fmt.Errorf("weighted: count %d: must be 1 to %d, or draw with replacement: %w", count, most, ErrOption)
	}
	id := identity{len(weights), count, h}
	if opt.Distinct {
		return &distinct{identity: id, weights: slices.Clone(weights)}, nil
	}
	return &weighted{identity: id, table: aliasTable(weights, sum)}, nil
}

// weighted is the sampler of Weighted with replacement.
type weighted struct {
	identity
	table []aliasColumn
}

// aliasColumn is 1/n of all probability: a draw below limit is the column's own sample, else another.
type aliasColumn struct {
	limit uint64 // 2⁶⁴ times the share of the own sample; 2⁶⁴-1: all
	other int
}

// aliasTable divides the weights into columns of equal weight with at most two samples each. Source:
// Vose, A Linear Algorithm for Generating Random Numbers with a Given Distribution, IEEE TSE 17(9),
// 1991.
func aliasTable(weights []float64, sum float64) []aliasColumn {
	n := len(weights)
	table := make([]aliasColumn, n)
	share := make([]float64, n) // in columns
	var small, large []int
	for i, w := range weights {
		if share[i] = w / sum * float64(n); share[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		table[s] = aliasColumn{limit: uint64(share[s] * (1 << 63) * 2), other: l}
		if share[l] -= 1 - share[s]; share[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	full := large
	heaviest := 0 // rounding may leave columns without a partner: a weight of 0 must still never come
	for i, w := range weights {
		if w > weights[heaviest] {
			heaviest = i
		}
	}
	for _, i := range small {
		if weights[i] == 0 {
			table[i] = aliasColumn{other: heaviest}
		} else {
			full = append(full, i)
		}
	}
	for _, i := range full {
		table[i] = aliasColumn{limit: math.MaxUint64, other: i}
	}
	return table
}

// Epoch implements Sampler.
func (s *weighted) Epoch(n int, seed uint64, epoch int) (Sequence, error) {
	if err := s.fits("weights", n); err != nil {
		return nil, err
	}
	return &weightedSequence{s, seed, epoch}, nil
}

type weightedSequence struct {
	*weighted
	seed  uint64
	epoch int
}

func (s *weightedSequence) Len() int { return s.Count }

func (s *weightedSequence) Index(position int) int {
	g := generator(domainWeighted, s.seed, uint64(s.epoch), uint64(position))
	i := int(below(&g, uint64(len(s.table))))
	if c := &s.table[i]; g.Uint64() >= c.limit {
		return c.other
	}
	return i
}

// distinct is the sampler of Weighted without replacement.
type distinct struct {
	identity
	weights []float64
}

// Epoch implements Sampler. Source: Efraimidis and Spirakis, Weighted Random Sampling with a
// Reservoir, Information Processing Letters 97(5), 2006: the samples with the largest u^(1/weight).
func (s *distinct) Epoch(n int, seed uint64, epoch int) (Sequence, error) {
	if err := s.fits("weights", n); err != nil {
		return nil, err
	}
	type drawn struct {
		time  float64 // exponential of rate weight: the smallest comes first
		index int
	}
	all := make([]drawn, 0, n)
	for i, w := range s.weights {
		if w > 0 {
			g := generator(domainWeighted, seed, uint64(epoch), uint64(i))
			u := (float64(g.Uint64()>>12) + 0.5) / (1 << 52) // in (0, 1)
			all = append(all, drawn{-math.Log(u) / w, i})
		}
	}
	slices.SortFunc(all, func(a, b drawn) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.index, b.index)) })
	list := make(indexList, s.Count)
	for i := range list {
		list[i] = all[i].index
	}
	return list, nil
}

// indexList is a sequence in memory, 8 bytes a position.
type indexList []int

func (l indexList) Len() int               { return len(l) }
func (l indexList) Index(position int) int { return l[position] }
