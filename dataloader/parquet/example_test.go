package parquet_test

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

// A table of images as Hugging Face's datasets writes it: the column "image" is a structure of the
// bytes of a PNG file and its path, and "label" is a number. The decoder here is one of the test;
// package images has decoders of JPEG, PNG and other formats.
func Example() {
	d, err := parquet.Open("testdata/images.parquet", parquet.Options{Columns: []parquet.Column{
		{Name: "image", Decoder: tabletest.Pixels{}},
		{Name: "label", Type: arena.Int32},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	for _, f := range d.Fields() {
		fmt.Println(f.Name, f.Type, f.Shape)
	}
	image, label := make([]byte, 4*4*3), make([]byte, 4)
	if err := d.Fetch(context.Background(), dataloader.At{Index: 3}, [][]byte{image, label}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Len(), "rows; label of row 3:", dataloader.View[int32](label)[0])
	// Output:
	// image uint8 [4 4 3]
	// label int32 []
	// 12 rows; label of row 3: 1
}
