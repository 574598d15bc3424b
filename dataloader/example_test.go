package dataloader_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Two slots, filled in turn by the loader's workers: the whole memory of an epoch.
func Example() {
	pixels := []uint8{0, 1, 10, 11, 20, 21, 30, 31, 40, 41} // five samples of two
	labels := []int32{0, 1, 0, 1, 0}
	ds, err := dataloader.FromSlices(5,
		dataloader.Column("x", pixels, 2).Scaled(1.0/255, 0),
		dataloader.Column("y", labels))
	if err != nil {
		log.Fatal(err)
	}
	l, err := dataloader.New(ds, dataloader.Options{Batch: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	slots := make([]dataloader.Slot, 2)
	for i := range slots {
		slots[i].Fields = [][]byte{make([]byte, 2*2), make([]byte, 2*4)}
	}
	ctx := context.Background()
	run, err := l.Epoch(ctx, 0, slots)
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	for {
		b, err := run.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		x := slots[b.Slot].Fields[0][:b.Rows*2]
		y := dataloader.View[int32](slots[b.Slot].Fields[1])[:b.Rows]
		fmt.Println("step", b.Step, "samples", b.Indices, "x", x, "y", y)
		if err := run.Release(b.Slot, nil); err != nil { // or the event of the copy to the device
			log.Fatal(err)
		}
	}
	// Output:
	// step 0 samples [0 1] x [0 1 10 11] y [0 1]
	// step 1 samples [2 3] x [20 21 30 31] y [0 1]
	// step 2 samples [4] x [40 41] y [0]
}

// A transform changes samples in place, with random draws that no worker count can change.
func ExampleMap() {
	ds, err := dataloader.FromSlices(3, dataloader.Column("x", []float32{1, 2, 3}))
	if err != nil {
		log.Fatal(err)
	}
	noisy := dataloader.Map(ds, func(at dataloader.At, sample [][]byte) error {
		r := at.Rand()
		dataloader.View[float32](sample[0])[0] += float32(r.IntN(4)) * 0.25
		return nil
	})
	x := make([]byte, 4)
	for epoch := range 2 {
		fmt.Print("epoch ", epoch, ":")
		for i := range noisy.Len() {
			if err := noisy.Fetch(context.Background(), dataloader.At{Index: i, Epoch: epoch, Seed: 1}, [][]byte{x}); err != nil {
				log.Fatal(err)
			}
			fmt.Print(" ", dataloader.View[float32](x)[0])
		}
		fmt.Println()
	}
	// Output:
	// epoch 0: 1 2 3.5
	// epoch 1: 1 2.25 3.25
}
