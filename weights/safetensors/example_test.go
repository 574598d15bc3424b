package safetensors_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// A file is written in one step, with a checksum, and read again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "safetensors")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	tensors := []safetensors.Tensor{{Name: "bias", DType: safetensors.Uint8, Shape: []int{3}}}
	err = safetensors.Create(ctx, path, tensors, safetensors.CreateOptions{Checksum: true},
		func(t safetensors.Tensor, w io.Writer) error {
			_, err := w.Write([]byte{1, 2, 3}) // all bytes of t
			return err
		})
	if err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(ctx); err != nil {
		log.Fatal(err)
	}
	for _, t := range f.Tensors() {
		data := make([]byte, t.Bytes())
		if err := f.Read(t.Name, data); err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Name, t, data)
	}
	// Output:
	// bias U8 [3] [1 2 3]
}

// A file without a disk: the bytes follow the header in the order of Tensors.
func ExampleNewWriter() {
	var b bytes.Buffer
	w, err := safetensors.NewWriter(&b, []safetensors.Tensor{
		{Name: "small", DType: safetensors.Uint8, Shape: []int{}},
		{Name: "wide", DType: safetensors.Int32, Shape: []int{1}},
	}, map[string]string{"format": "pt"})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range w.Tensors() { // the widest elements first: all are aligned
		if _, err := w.Write(make([]byte, t.Bytes())); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", b.Bytes()[8:])
	// Output:
	// "{\"__metadata__\":{\"format\":\"pt\"},\"wide\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},\"small\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]}} \x00\x00\x00\x00\x00"
}
