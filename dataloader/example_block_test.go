package dataloader_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// hundreds is a source of 4 blocks of 3 samples: block i decodes to the numbers 100·i, 100·i+1 and 100·i+2.
type hundreds struct{}

func (hundreds) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "x", Type: arena.Int32}}
}

func (hundreds) Sizes() []int { return []int{3, 3, 3, 3} }

func (hundreds) Load(_ context.Context, i int, old dataloader.Block) (dataloader.Block, error) {
	block, ok := old.(*numbers) // memory of a block that is not needed any more
	if !ok {
		block = new(numbers)
	}
	for k := range block {
		block[k] = int32(100*i + k)
	}
	return block, nil
}

// numbers is a decoded block.
type numbers [3]int32

func (n *numbers) Fetch(_ context.Context, row int, _ dataloader.At, dst [][]byte) error {
	binary.NativeEndian.PutUint32(dst[0], uint32(n[row]))
	return nil
}

// Samples that are decoded in blocks: at most two blocks are in memory. Shuffling permutes the blocks, and here the
// samples within each one.
func ExampleFromBlocks() {
	ds, err := dataloader.FromBlocks(hundreds{}, dataloader.BlockOptions{Held: 2})
	if err != nil {
		log.Fatal(err)
	}
	l, err := dataloader.New(ds, dataloader.Options{Batch: 4, Shuffle: true})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	slots := []dataloader.Slot{{Fields: [][]byte{make([]byte, 4*4)}}}
	run, err := l.Epoch(context.Background(), 0, slots)
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	for range l.Steps() {
		b, err := run.Next(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(dataloader.View[int32](slots[b.Slot].Fields[0]))
		if err := run.Release(b.Slot, nil); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// [102 100 101 302]
	// [301 300 2 0]
	// [1 201 200 202]
}

// backwards is a sampler of the dataset's own order, from its end.
type backwards struct{}

func (backwards) Epoch(n int, seed uint64, epoch int) (dataloader.Sequence, error) {
	return reversed(n), nil
}

type reversed int

func (r reversed) Len() int               { return int(r) }
func (r reversed) Index(position int) int { return int(r) - 1 - position }

// A sampler of the user's.
func ExampleSampler() {
	l, err := dataloader.New(dataloader.Indices(6), dataloader.Options{Batch: 4, Sampler: backwards{}})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	printOrder(l, 0, []dataloader.Slot{{Fields: [][]byte{make([]byte, 4*4)}}})
	// Output:
	// [5 4 3 2][1 0] of epoch 0
}

// Two processes share each batch of 4: rank 0 has its first half, rank 1 the second.
func ExampleOptions_ranks() {
	for rank := range 2 {
		l, err := dataloader.New(dataloader.Indices(10), dataloader.Options{Batch: 2, Shuffle: true, Rank: rank, Ranks: 2})
		if err != nil {
			log.Fatal(err)
		}
		printOrder(l, 0, []dataloader.Slot{{Fields: [][]byte{make([]byte, 4*2)}}})
		l.Close()
	}
	// Output:
	// [2 6][3 0][7] of epoch 0
	// [4 8][1 9][5] of epoch 0
}
