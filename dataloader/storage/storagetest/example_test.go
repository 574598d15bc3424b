package storagetest_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// Every is called by the test of a reader; here testing.Benchmark stands for the test.
func ExampleEvery() {
	fsys := fstest.MapFS{"four.bin": {Data: []byte("four")}}
	failed := true
	testing.Benchmark(func(b *testing.B) {
		storagetest.Every(b, fsys, func(ctx context.Context, fsys fs.FS) error {
			f, err := storage.Open(fsys, "four.bin")
			if err != nil {
				return err
			}
			defer f.Close()
			var got [4]byte
			if err := storage.ReadAt(ctx, f, got[:], 0); err != nil {
				return err
			}
			if string(got[:]) != "four" {
				b.Errorf("read %q", got)
			}
			return nil
		})
		failed = b.Failed()
		b.SkipNow() // once is enough
	})
	fmt.Println("a fault was lost:", failed)
	// Output: a fault was lost: false
}
