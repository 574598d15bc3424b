package parquet

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// file is an open file.
type file struct {
	storage.File
	name   string
	size   int64
	groups []rowGroup
}

// read fills p from an offset.
func (f *file) read(ctx context.Context, p []byte, off int64) error {
	if err := storage.ReadAt(ctx, f.File, p, off); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	return nil
}

// Fingerprint implements dataloader.Fingerprinter: it depends on the names and sizes of the files,
// their row groups, and the columns.
func (s *source) Fingerprint() uint64 {
	h := fnv.New64a()
	var last *file
	for i, b := range s.blocks {
		if b.file != last {
			last = b.file
			fmt.Fprintf(h, "%016x", storage.Fingerprint(last.File))
		}
		fmt.Fprintf(h, " %d:%d", b.group, s.sizes[i])
	}
	for _, c := range s.columns {
		io.WriteString(h, " "+c.leaf.name)
	}
	return h.Sum64()
}
