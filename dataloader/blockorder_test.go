package dataloader_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Blocks that are all held have the order of the same samples without blocks.
func TestAllBlocksAtOnceAreShuffledAsSamplesAre(t *testing.T) {
	d := newDecoded(randomSizes(random(t), 9, 12)...)
	opt := dataloader.Options{Batch: 5, Shuffle: true, Seed: 3}
	var orders [][]int
	for _, ds := range []dataloader.Dataset{&fake{n: d.n}, fromBlocks(t, d, 100), fromBlocks(t, d, 8)} {
		l := open(t, ds, opt)
		var order []int
		for epoch := range 3 {
			s, err := drain(t, l, epoch, slots(ds, 2, opt.Batch))
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, s.Indices...)
		}
		orders = append(orders, order)
	}
	if !slices.Equal(orders[0], orders[1]) || slices.Equal(orders[0], orders[2]) {
		t.Errorf("without blocks %v\nall held %v\n8 held %v", orders[0], orders[1], orders[2])
	}
}
