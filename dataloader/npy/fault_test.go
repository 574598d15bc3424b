package npy_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/npy"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// Every fault of the storage, at every call, is an error or changes nothing.
func TestFaultsOfTheStorage(t *testing.T) {
	files := fstest.MapFS{}
	for _, name := range []string{"compressed.npz", "orders.npz", "v3.npy"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: b}
	}
	for name := range files {
		var want map[string][]float64
		storagetest.Every(t, files, func(ctx context.Context, fsys fs.FS) error {
			ds, err := npy.OpenContext(ctx, fsys, name, npy.Options{})
			if err != nil {
				return err
			}
			defer ds.Close()
			got := map[string][]float64{}
			var dst [][]byte
			for _, f := range ds.Fields() {
				dst = append(dst, make([]byte, f.Bytes()))
			}
			for i := range ds.Len() {
				if err := ds.Fetch(ctx, dataloader.At{Index: i}, dst); err != nil {
					return err
				}
				for k, f := range ds.Fields() {
					got[f.Name] = append(got[f.Name], floats(f.Type, dst[k])...)
				}
			}
			if want == nil { // of the first run, without faults
				want = got
			}
			if !maps.EqualFunc(got, want, slices.Equal[[]float64]) {
				t.Errorf("%s: the numbers differ", name)
			}
			return nil
		})
	}
}
