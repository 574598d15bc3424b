package pack_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// A dataset is packed once and read from then on, at random.
func Example() {
	dir, err := os.MkdirTemp("", "pack")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ds, err := dataloader.FromSlices(3, dataloader.Column("x", []float32{1, 2, 3, 4, 5, 6}, 2), dataloader.Column("y", []uint8{0, 1, 2}))
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "train.pack")
	if err := pack.Write(context.Background(), path, ds, pack.WriteOptions{}); err != nil {
		log.Fatal(err)
	}

	d, err := pack.Open(path, pack.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	x, y := make([]byte, 8), make([]byte, 1)
	if err := d.Fetch(context.Background(), dataloader.At{Index: 2}, [][]byte{x, y}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Len(), dataloader.View[float32](x), y[0])
	// Output: 3 [5 6] 2
}
