package dataloader

import (
	"fmt"
	"sort"
)

// blocksOf returns the blocks of ds; without Starts if it has none.
func blocksOf(ds Dataset) Blocks {
	if b, ok := ds.(Blocked); ok {
		return b.Blocks()
	}
	return Blocks{}
}

// blockPlan is what a loader knows about the blocks of its dataset.
type blockPlan struct {
	Blocks
	starts []int // of the blocks, and the number of samples
}

// planBlocks returns the blocks of ds, or nil if it has none.
func planBlocks(ds Dataset, n int) (p *blockPlan, err error) {
	defer blame(ds, &err)
	b := blocksOf(ds)
	if len(b.Starts) == 0 {
		return nil, nil
	}
	if b.Group < 1 || b.Held != 0 && b.Held < b.Group {
		return nil, fmt.Errorf("dataset of type %T: blocks in groups of %d, %d held: must be 1 or more, and no more than are held: %w",
			ds, b.Group, b.Held, ErrOption)
	}
	if b.Held == 0 {
		b.Held = 2 * b.Group
	}
	for i, s := range b.Starts {
		if i == 0 && s != 0 || i > 0 && s < b.Starts[i-1] || s > n {
			return nil, fmt.Errorf("dataset of type %T: block %d starts at sample %d of %d: starts must increase from 0: %w", ds, i, s, n, ErrOption)
		}
	}
	return &blockPlan{Blocks: b, starts: append(b.Starts[:len(b.Starts):len(b.Starts)], n)}, nil
}

// blockOrder is the order of an epoch over blocks: group by group, each of a few blocks. In the
// order of the dataset a group is one block. Else the blocks are permuted, and the samples within
// each group:
//
//	blocks  0 1 2 3 4 5   permuted  4 1 │ 0 5 │ 3 2   samples  1 4 4 1 4 1 │ 5 0 0 …
//
// If all blocks are one group, the order is that of a dataset without blocks.
type blockOrder struct {
	plan    *blockPlan
	shuffle bool
	seed    uint64
	epoch   int
	each    int   // blocks of a group
	blocks  []int // in the order of the epoch; nil: the order of the dataset
	at      []int // position of the first sample of each of them, and the number of samples
}

// order returns the order of an epoch.
func (p *blockPlan) order(seed uint64, epoch int, shuffle bool) *blockOrder {
	o := &blockOrder{plan: p, shuffle: shuffle, seed: seed, epoch: epoch, each: 1, at: p.starts}
	if !shuffle {
		return o
	}
	count := len(p.Starts)
	if o.each = min(p.Group, count); o.each == count {
		return o
	}
	order := permute(count, keyOf(domainShuffle, seed, epoch, 0))
	o.blocks, o.at = make([]int, count), make([]int, count+1)
	for i := range count {
		b := order.at(i)
		o.blocks[i] = b
		o.at[i+1] = o.at[i] + p.starts[b+1] - p.starts[b]
	}
	return o
}

// bytes returns the memory of the order.
func (o *blockOrder) bytes() int64 { return 8 * int64(cap(o.blocks)+cap(o.at)) }

// groups returns the number of groups.
func (o *blockOrder) groups() int { return (len(o.plan.Starts) + o.each - 1) / o.each }

// blocksOf returns the blocks [from, to) of group g, as numbers in the order of the epoch.
func (o *blockOrder) blocksOf(g int) (from, to int) {
	return g * o.each, min((g+1)*o.each, len(o.plan.Starts))
}

// span returns the positions [from, to) of group g.
func (o *blockOrder) span(g int) (from, to int) {
	i, j := o.blocksOf(g)
	return o.at[i], o.at[j]
}

// groupOf returns the group of the sample at a position.
func (o *blockOrder) groupOf(position int) int {
	return (sort.SearchInts(o.at, position+1) - 1) / o.each
}

// block returns the block that is number i in the order of the epoch.
func (o *blockOrder) block(i int) int {
	if o.blocks == nil {
		return i
	}
	return o.blocks[i]
}

// locate returns the number of the block with the sample at a position of group g, and its row.
func (o *blockOrder) locate(g, position int) (number, row int) {
	from, to := o.blocksOf(g)
	if o.shuffle {
		first, end := o.at[from], o.at[to]
		part := uint64(g) + 1
		if o.blocks == nil {
			part = 0
		}
		p := permute(end-first, keyOf(domainShuffle, o.seed, o.epoch, part))
		position = first + p.at(position-first)
	}
	i := from + sort.SearchInts(o.at[from:to], position+1) - 1
	return i, position - o.at[i]
}

func (o *blockOrder) Len() int { return o.at[len(o.at)-1] }

func (o *blockOrder) Index(position int) int {
	if !o.shuffle {
		return position
	}
	i, row := o.locate(o.groupOf(position), position)
	return o.plan.starts[o.block(i)] + row
}
