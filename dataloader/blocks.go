package dataloader

import (
	"context"
	"fmt"
	"slices"
	"sort"
)

// BlockSource is a source of samples that are decoded block by block, such as the row groups of a
// table or the frames of a compressed file. Its methods must be safe for concurrent use.
type BlockSource interface {
	// Fields returns the fields of a sample.
	Fields() []Field
	// Sizes returns the number of samples of each block. It must not change.
	Sizes() []int
	// Load decodes block i. It may reuse the memory of old, a block that Load returned before and
	// that nothing uses any more, or nil.
	Load(ctx context.Context, i int, old Block) (Block, error)
}

// Block is a decoded block of samples. Fetch must be safe for concurrent use.
type Block interface {
	// Fetch writes the sample in the given row of the block, as [Dataset.Fetch] does; at.Index is its
	// index in the dataset.
	Fetch(ctx context.Context, row int, at At, dst [][]byte) error
}

// BlockOptions of FromBlocks.
type BlockOptions struct {
	// Held is the number of decoded blocks in memory at one time. Shuffling mixes the samples of Held/2
	// blocks while the next Held/2 are decoded: more blocks mix better. If all blocks fit, all samples
	// are mixed. 0: 4.
	Held int
}

// Blocked is a dataset whose samples are decoded block by block, so that an order that stays within
// a few blocks at a time is much faster than any other. [FromBlocks] returns one.
type Blocked interface {
	Dataset
	// Blocks returns the blocks. It must not change; the caller does not modify it.
	Blocks() Blocks
}

// Blocks is the division of a dataset into blocks. A loader that shuffles permutes the blocks, takes
// Group of them at a time and permutes their samples. Without a Sampler it decodes blocks ahead, and
// says when it is done with them.
type Blocks struct {
	// Starts holds the index of the first sample of each block, in increasing order from 0. A dataset
	// that Blocks does not divide has none.
	Starts []int
	Group  int // blocks whose samples are mixed, 1 or more
	Held   int // decoded blocks in memory, Group or more; 0: 2·Group

	// Load decodes a block ahead, so that a Fetch of its samples does not wait. An error need not be
	// returned, as Fetch returns it too. nil: blocks are decoded by Fetch only.
	Load func(ctx context.Context, block int) error
	// Done says that the pass over the data needs the block no more. nil: nothing is to be done.
	Done func(block int)
}

// BlockError reports a block that could not be decoded. It unwraps to Err.
type BlockError struct {
	Block int   // index of the block in its source
	Err   error // the error of Load, or a *PanicError
}

// Error returns the block and the cause.
func (e *BlockError) Error() string { return fmt.Sprintf("block %d: %v", e.Block, e.Err) }

// Unwrap returns the cause.
func (e *BlockError) Unwrap() error { return e.Err }

// defaultHeld is the default of BlockOptions.Held.
const defaultHeld = 4

// FromBlocks returns the samples of a source as a dataset, which keeps up to opt.Held decoded blocks
// for all workers and decodes each one once while it is kept. It implements [Blocked]. Fetch of a
// sample waits until its block is decoded, but not after ctx is done. An error of Load is a
// *BlockError in Fetch of each of its samples; the next epoch tries it again.
func FromBlocks(src BlockSource, opt BlockOptions) (Dataset, error) {
	if src == nil {
		return nil, fmt.Errorf("from blocks: nil source: %w", ErrOption)
	}
	if opt.Held < 0 {
		return nil, fmt.Errorf("from blocks: held %d: must be 0 (default) or more: %w", opt.Held, ErrOption)
	}
	b, err := newBlocks(src, opt)
	if err != nil {
		return nil, err
	}
	if err := Check(b); err != nil {
		return nil, err
	}
	return b, nil
}

// blocks is the dataset of FromBlocks.
type blocks struct {
	src    BlockSource
	fields []Field
	starts []int // of each block, and the number of samples
	cache  blockCache
}

// newBlocks reads the sizes of a source. A panic in it is an error.
func newBlocks(src BlockSource, opt BlockOptions) (b *blocks, err error) {
	b = &blocks{src: src}
	defer blame(b, &err)
	b.fields = slices.Clone(src.Fields())
	sizes := src.Sizes()
	b.starts = make([]int, 1, len(sizes)+1)
	for i, n := range sizes {
		sum := b.starts[i] + n
		if n < 0 || sum < 0 {
			return nil, fmt.Errorf("from blocks: block %d has %d samples: must be 0 or more, and at most %d in all: %w", i, n, int64(maxSamples), ErrOption)
		}
		b.starts = append(b.starts, sum)
	}
	held := opt.Held
	if held == 0 {
		held = defaultHeld
	}
	b.cache.init(src, min(held, max(1, len(sizes))))
	return b, nil
}

func (b *blocks) Len() int        { return b.starts[len(b.starts)-1] }
func (b *blocks) Fields() []Field { return b.fields }

// Blocks implements Blocked.
func (b *blocks) Blocks() Blocks {
	held, count := len(b.cache.entries), len(b.starts)-1
	group := max(1, held/2)
	if held >= count { // all at once
		group = held
	}
	return Blocks{Starts: b.starts[:count:count], Group: group, Held: held, Load: b.cache.load, Done: b.cache.release}
}

func (b *blocks) Fetch(ctx context.Context, at At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= b.Len() {
		return fmt.Errorf("sample %d: must be 0 to %d: %w", at.Index, b.Len()-1, ErrOption)
	}
	i := blockOf(b.starts, at.Index)
	e, err := b.cache.acquire(ctx, i, at.Epoch, false)
	if err != nil {
		return err
	}
	defer b.cache.unpin(e)
	return e.block.Fetch(ctx, at.Index-b.starts[i], at, dst)
}

// blockOf returns the last block that starts at or before index, which is not an empty one.
func blockOf(starts []int, index int) int {
	return sort.SearchInts(starts, index+1) - 1
}

// beside returns the first sample of the block of a sample of ds and their number: of all samples if
// there are no blocks.
func beside(ds Dataset, starts []int, index int) (from, n int) {
	n = ds.Len()
	if len(starts) == 0 {
		return 0, n
	}
	b := blockOf(starts, index)
	if from = starts[b]; b+1 < len(starts) {
		n = starts[b+1]
	}
	return from, n - from
}
