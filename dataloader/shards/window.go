package shards

import (
	"context"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// window reads a file through a small buffer, forward and with seeks. After a seek it reads little,
// since an index looks only at the headers of entries.
type window struct {
	ctx   context.Context // of one scan
	f     storage.File
	pos   int64 // of the next Read
	start int64 // of buf in the file
	buf   []byte
	mem   []byte
}

const (
	windowBytes = 64 << 10
	jumpBytes   = 4 << 10
)

// position returns the offset of the next Read.
func (w *window) position() int64 { return w.pos }

// unread puts bytes back that were read last.
func (w *window) unread(b []byte) { w.pos -= int64(len(b)) }

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.pos >= w.f.Size() {
		return 0, io.EOF
	}
	if at := w.pos - w.start; at < 0 || at >= int64(len(w.buf)) {
		if err := w.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.buf[w.pos-w.start:])
	w.pos += int64(n)
	return n, nil
}

// fill reads the buffer from pos on.
func (w *window) fill() error {
	if w.mem == nil {
		w.mem = make([]byte, windowBytes)
	}
	n := int64(jumpBytes)
	if w.pos == w.start+int64(len(w.buf)) {
		n = windowBytes
	}
	w.start, w.buf = w.pos, w.mem[:min(n, w.f.Size()-w.pos)]
	if err := storage.ReadAt(w.ctx, w.f, w.buf, w.start); err != nil {
		w.buf = nil
		return err
	}
	return nil
}

// Seek implements io.Seeker, for archive/tar: from the start and from the present offset.
func (w *window) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekCurrent {
		offset += w.pos
	} else if whence != io.SeekStart {
		return 0, fmt.Errorf("seek: whence %d: %w", whence, dataloader.ErrOption)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d: %w", offset, dataloader.ErrOption)
	}
	w.pos = offset
	return offset, nil
}

// readAt fills p from an offset on.
func (w *window) readAt(p []byte, at int64) error {
	w.pos = at
	_, err := io.ReadFull(w, p)
	return err
}
