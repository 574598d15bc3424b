package arrow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/arrow"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// A folder that Hugging Face's datasets has saved: a column of images, which are structures of the
// bytes of a PNG file and its path, and one of labels. The decoder here is one of the test; package
// images has decoders of JPEG, PNG and other formats.
func Example() {
	d, err := arrow.Open("testdata/images.arrow", arrow.Options{Columns: []arrow.Column{
		{Name: "image", Decoder: tabletest.Pixels{}},
		{Name: "label"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	for _, f := range d.Fields() {
		fmt.Println(f.Name, f.Type, f.Shape)
	}
	image, label := make([]byte, 4*4*3), make([]byte, 8)
	if err := d.Fetch(context.Background(), dataloader.At{Index: 3}, [][]byte{image, label}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Len(), "rows; label of row 3:", dataloader.View[int64](label)[0])
	// Output:
	// image uint8 [4 4 3]
	// label int64 []
	// 12 rows; label of row 3: 1
}

// Arrow files become a pack, which is read at random without a module of its own.
func Example_pack() {
	dir, err := os.MkdirTemp("", "pack")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "train.pack")
	d, err := arrow.Open("testdata/rules.arrow", arrow.Options{Columns: []arrow.Column{{Name: "id"}, {Name: "label", FindClasses: true}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pack.Write(context.Background(), path, d, pack.WriteOptions{Classes: map[string][]string{"label": d.Classes("label")}})
	if err := errors.Join(err, d.Close()); err != nil {
		fmt.Println(err)
		return
	}
	info, err := pack.Stat(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Samples, "samples of", info.Fields[0].Name, "and", info.Fields[1].Name, len(info.Classes["label"]), "classes")
	// Output: 30 samples of id and label 3 classes
}
