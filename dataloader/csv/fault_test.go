package csv_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// Every fault of the storage, at every call, is an error or changes nothing.
func TestFaultsOfTheStorage(t *testing.T) {
	files := fstest.MapFS{"d/a.csv": {Data: []byte("x,k\n1,b\n2,a\n")}, "d/b.csv": {Data: []byte("x,k\n3,\"a\"\n4,b")}}
	for _, held := range []int{0, 1} {
		opt := csv.Options{Held: held, Workers: 1, Fields: []csv.Field{{Name: "x"}, {Name: "k", FindClasses: true}}}
		storagetest.Every(t, files, func(ctx context.Context, fsys fs.FS) error {
			ds, err := csv.OpenContext(ctx, fsys, "d", opt)
			if err != nil {
				return err
			}
			defer ds.Close()
			x, k := make([]byte, 4), make([]byte, 4)
			for i, class := range []int32{1, 0, 0, 1}[:ds.Len()] {
				if err := ds.Fetch(ctx, dataloader.At{Index: i}, [][]byte{x, k}); err != nil {
					return err
				}
				if got := dataloader.View[float32](x)[0]; got != float32(i+1) || dataloader.View[int32](k)[0] != class {
					t.Errorf("held %d, record %d: got %v and class %d", held, i, got, dataloader.View[int32](k)[0])
				}
			}
			return nil
		})
	}
}
