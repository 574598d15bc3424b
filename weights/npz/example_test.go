package npz_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/weights/npz"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// In Python: numpy.load("x.npz")["count"].
func Example() {
	dir, err := os.MkdirTemp("", "npz")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x.npz")
	arrays := []safetensors.Tensor{{Name: "count", DType: safetensors.Uint8, Shape: []int{3}}}
	err = npz.Create(context.Background(), path, arrays, npz.CreateOptions{}, func(t safetensors.Tensor, w io.Writer) error {
		_, err := w.Write([]byte{1, 2, 3})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	f, err := npz.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, t := range f.Tensors() {
		data := make([]byte, t.Bytes())
		if err := f.Read(t.Name, data); err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Name, t, data)
	}
	// Output:
	// count U8 [3] [1 2 3]
}
