package shards_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
)

// Samples of a shard that webdataset has written. Images have an images.Pipeline as their decoder.
func Example() {
	d, err := shards.OpenFS(os.DirFS("testdata"), "writer.tar", shards.Options{Fields: []shards.Field{
		{Name: "x", Ext: "bin", Decoder: shards.Raw(arena.Uint8, 3)},
		{Name: "y", Ext: "cls", Decoder: shards.Class(10)},
		{Name: "a", Ext: "json", Decoder: shards.JSON("a.0", arena.Float32)},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	x, y, a := make([]byte, 3), make([]byte, 4), make([]byte, 4)
	if err := d.Fetch(context.Background(), dataloader.At{Index: 3}, [][]byte{x, y, a}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Len(), x, dataloader.View[int32](y), dataloader.View[float32](a))
	// Output: 4 [3 4 5] [3] [1.5]
}

func ExampleExpand() {
	names, err := shards.Expand("train-{098..101}.tar")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
	// Output: [train-098.tar train-099.tar train-100.tar train-101.tar]
}
