package pack_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// Faults of the storage at any call reach the caller; short reads are continued.
func TestFaultsOfTheStorage(t *testing.T) {
	fsys := fstest.MapFS{"a.pack": &fstest.MapFile{Data: small(t)}}
	storagetest.Every(t, fsys, func(ctx context.Context, fsys fs.FS) (err error) {
		d, err := pack.OpenContext(ctx, fsys, "a.pack", pack.Options{Decoders: decoders, Verify: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		dst, want := memory(d), make([]byte, 16)
		for i := range 3 {
			if err := d.Fetch(ctx, dataloader.At{Index: i}, dst); err != nil {
				return err
			}
			if (measure{}).Decode(dataloader.At{}, valueOf(i, 1), want); string(want) != string(dst[1]) {
				t.Errorf("sample %d: got %x, want %x", i, dst[1], want)
			}
		}
		return nil
	})
}
