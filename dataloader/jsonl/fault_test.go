package jsonl_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// Every fault of the storage, at every call, is an error or changes nothing.
func TestFaultsOfTheStorage(t *testing.T) {
	files := fstest.MapFS{
		"d/a.jsonl":     {Data: []byte("{\"x\":1}\n\n{\"x\":2}\n")},
		"d/b.jsonl.gz":  {Data: []byte(packed(t, ".gz", "{\"x\":3}\n"))},
		"d/c.jsonl.zst": {Data: []byte(packed(t, ".zst", "{\"x\":4}\n"))},
	}
	opt := jsonl.Options{Held: 1, Fields: []jsonl.Field{{Name: "x"}}}
	storagetest.Every(t, files, func(ctx context.Context, fsys fs.FS) error {
		ds, err := jsonl.OpenContext(ctx, fsys, "d", opt)
		if err != nil {
			return err
		}
		defer ds.Close()
		if ds.Len() != 4 {
			t.Errorf("%d lines, want 4", ds.Len())
		}
		x := make([]byte, 4)
		for i := range ds.Len() {
			if err := ds.Fetch(ctx, dataloader.At{Index: i}, [][]byte{x}); err != nil {
				return err
			}
			if got := dataloader.View[float32](x)[0]; got != float32(i+1) {
				t.Errorf("line %d: got %v", i, got)
			}
		}
		return nil
	})
}
