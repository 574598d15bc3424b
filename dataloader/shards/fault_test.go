package shards_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// Faults of the storage at any call reach the caller; short reads are continued.
func TestFaultsOfTheStorage(t *testing.T) {
	for name, compress := range map[string]func(testing.TB, []byte) []byte{"plain": same, "gzip": gz, "zstd": zst} {
		t.Run(name, func(t *testing.T) {
			fsys := folder(map[string][]byte{"a.tar": compress(t, archive(t, samples(0, 2, 700)...)), "b.tar": compress(t, archive(t, samples(2, 2, 700)...))})
			storagetest.Every(t, fsys, func(ctx context.Context, fsys fs.FS) (err error) {
				d, err := shards.OpenContext(ctx, fsys, "{a,b}.tar", shards.Options{Fields: two(700)})
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, d.Close()) }()
				dst := memory(d)
				for i := range 4 {
					if err := d.Fetch(ctx, dataloader.At{Index: i}, dst); err != nil {
						return err
					}
					if !bytes.Equal(dst[0], contents(i, 700)) {
						t.Errorf("sample %d differs", i)
					}
				}
				return nil
			})
		})
	}
}
