package dataloader

import (
	"cmp"
	"fmt"
	"slices"
)

// Bucketed returns a sampler that makes batches of sequences of near lengths: it takes pool batches of
// the shuffled order at a time, sorts them by length, and shuffles the batches. Each sample comes once
// in an epoch; the last, short batch stays last, with samples of any length. batch is Options.Batch times Options.Ranks,
// pool 0 is 64. It keeps 8 bytes a sample, and 8 more for the order of an epoch. Wrong arguments are
// errors that wrap ErrOption.
//
// A model is planned for one shape. Bucketed changes which samples share a batch, not what a batch
// costs: padded samples cost their padded length. [PadBuckets] makes short sequences cheaper.
func Bucketed(lengths []int, batch, pool int) (Sampler, error) {
	if pool == 0 {
		pool = 64
	}
	if len(lengths) == 0 || batch < 1 || pool < 1 || pool > maxSamples/batch {
		return nil, fmt.Errorf("bucketed: %d lengths, batch %d, pool %d: must be 1 or more: %w", len(lengths), batch, pool, ErrOption)
	}
	h := hash(domainBucket, uint64(batch), uint64(pool))
	for i, n := range lengths {
		if n < 0 {
			return nil, fmt.Errorf("bucketed: length %d is %d: must be 0 or more: %w", i, n, ErrOption)
		}
		h = hash(h, uint64(n))
	}
	return &bucketed{identity{len(lengths), len(lengths), h}, slices.Clone(lengths), batch, pool}, nil
}

type bucketed struct {
	identity
	lengths     []int
	batch, pool int
}

// Epoch implements Sampler.
func (s *bucketed) Epoch(n int, seed uint64, epoch int) (Sequence, error) {
	if err := s.fits("lengths", n); err != nil {
		return nil, err
	}
	order := permute(n, keyOf(domainBucket, seed, epoch, 0))
	all := make([]int, n)
	for i := range all {
		all[i] = order.at(i)
	}
	full := n / s.batch
	sorted := all[:full*s.batch]
	for pool := range slices.Chunk(sorted, s.batch*s.pool) {
		slices.SortStableFunc(pool, func(a, b int) int { return cmp.Compare(s.lengths[a], s.lengths[b]) })
	}
	if full == 0 {
		return indexList(all), nil
	}
	return &bucketOrder{all, permute(full, keyOf(domainBucket, seed, epoch, 1)), s.batch}, nil
}

// bucketOrder is batches in a random order.
type bucketOrder struct {
	indices []int
	batches permutation
	batch   int
}

func (o *bucketOrder) Len() int { return len(o.indices) }

func (o *bucketOrder) Index(position int) int {
	if b := position / o.batch; b < int(o.batches.n) {
		position = o.batches.at(b)*o.batch + position%o.batch
	}
	return o.indices[position]
}
