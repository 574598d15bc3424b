package dataloader

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
)

// SubsetOf returns the samples of ds with the given indices, numbered from 0 in the order of the list,
// which it copies: 8 bytes a sample. A sample has the same random draws as in ds. An index outside ds
// is an error that wraps ErrOption, an empty list one that wraps ErrEmpty. If ds is [Blocked], so is
// the result, as long as the list takes its blocks in their order.
func SubsetOf(ds Dataset, indices []int) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	n := ds.Len()
	for i, x := range indices {
		if x < 0 || x >= n {
			return nil, fmt.Errorf("subset: indices[%d] is %d: must be 0 to %d: %w", i, x, n-1, ErrOption)
		}
	}
	if len(indices) == 0 {
		return nil, fmt.Errorf("subset of no indices: %w", ErrEmpty)
	}
	return listOf(ds, slices.Clone(indices)), nil
}

// listOf is SubsetOf for a list that is right and not shared.
func listOf(ds Dataset, index []int) *listed {
	l := &listed{Dataset: ds, index: index, blocks: listBlocks(blocksOf(ds), index)}
	h := hash(domainList)
	for _, x := range index {
		h = hash(h, uint64(x))
		l.need = max(l.need, x+1)
	}
	l.hash = h
	return l
}

// listed is some samples of a dataset.
type listed struct {
	Dataset
	index  []int
	blocks Blocks
	need   int // samples of Dataset, at least
	hash   uint64
}

// Len returns the length of the list, or 0 if the dataset has shrunk below it, so that a loader
// notices.
func (l *listed) Len() int {
	if l.Dataset.Len() < l.need {
		return 0
	}
	return len(l.index)
}

// Blocks implements Blocked.
func (l *listed) Blocks() Blocks { return l.blocks }

// Fingerprint implements Fingerprinter.
func (l *listed) Fingerprint() uint64 { return hash(Fingerprint(l.Dataset), l.hash) }

func (l *listed) Fetch(ctx context.Context, at At, dst [][]byte) error {
	at.Index = l.index[at.Index]
	return l.Dataset.Fetch(ctx, at, dst)
}

// listBlocks returns the blocks of the listed samples; without Starts if the list goes back to a
// block that it has left.
func listBlocks(b Blocks, index []int) Blocks {
	if len(b.Starts) == 0 {
		return Blocks{}
	}
	var starts, from []int
	last := -1
	for i, x := range index {
		k := blockOf(b.Starts, x)
		if k < last {
			return Blocks{}
		}
		if k > last {
			starts, from, last = append(starts, i), append(from, k), k
		}
	}
	return b.renumber(starts, func(i int) int { return from[i] })
}

// renumber returns blocks that start at other samples. from returns the block of b for one of them.
func (b Blocks) renumber(starts []int, from func(block int) int) Blocks {
	b.Starts = starts
	if load := b.Load; load != nil {
		b.Load = func(ctx context.Context, i int) error { return load(ctx, from(i)) }
	}
	if done := b.Done; done != nil {
		b.Done = func(i int) { done(from(i)) }
	}
	return b
}

// mulDiv returns a·b/c and its remainder. The quotient must fit: a or b is at most c.
func mulDiv(a, b, c uint64) (q, r uint64) {
	hi, lo := bits.Mul64(a, b)
	return bits.Div64(hi, lo, c)
}
