package npy

import (
	"context"
	"io"

	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// whole reads a file with ReadAt that is never short before the end, which archive/zip relies on.
type whole struct {
	ctx context.Context // of Open
	f   storage.File
}

// ReadAt implements io.ReaderAt.
func (w whole) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(0, w.f.Size()-off)))
	if err := storage.ReadAt(w.ctx, w.f, p[:n], off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
