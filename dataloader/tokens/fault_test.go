package tokens_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
	"github.com/evenkeel/evenkeel/dataloader/tokens"
)

// Every fault of the storage, at every call, is an error or changes nothing.
func TestFaultsOfTheStorage(t *testing.T) {
	files := fstest.MapFS{"d/a.bin": {Data: encoded(0, 16, []uint32{0, 1, 2, 3, 4})}, "d/b.bin": {Data: encoded(0, 16, []uint32{5, 6, 7})}}
	storagetest.Every(t, files, func(ctx context.Context, fsys fs.FS) error {
		ds, err := tokens.OpenFS(fsys, "d", tokens.Options{Window: 2})
		if err != nil {
			return err
		}
		defer ds.Close()
		x, y := make([]byte, 8), make([]byte, 8)
		for i, first := range []int32{0, 2, 5}[:ds.Len()] {
			if err := ds.Fetch(ctx, dataloader.At{Index: i}, [][]byte{x, y}); err != nil {
				return err
			}
			if x, y := dataloader.View[int32](x), dataloader.View[int32](y); x[0] != first || x[1] != first+1 || y[0] != first+1 || y[1] != first+2 {
				t.Errorf("window %d: got %d, %d", i, x, y)
			}
		}
		return nil
	})
}
