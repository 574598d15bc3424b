package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/dataloader"
)

// opened is a file of an fs.FS.
type opened struct {
	r    io.ReaderAt
	file fs.File
	name string
	size int64
	done atomic.Bool
}

func (o *opened) Name() string { return o.name }
func (o *opened) Size() int64  { return o.size }

// ReadAt implements io.ReaderAt.
func (o *opened) ReadAt(p []byte, off int64) (int, error) {
	if o.done.Load() {
		return 0, fs.ErrClosed
	}
	return o.r.ReadAt(p, off)
}

// Close closes the file once.
func (o *opened) Close() error {
	if o.done.Swap(true) {
		return nil
	}
	return o.file.Close()
}

// ReadAtContext implements ContextReaderAt: as the file does, or between the steps of ReadAt.
func (o *opened) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if o.done.Load() {
		return 0, fs.ErrClosed
	}
	remote, _ := o.r.(ContextReaderAt)
	return readOnce(ctx, o.r, remote, p, off)
}

// Version implements Versioned.
func (o *opened) Version() string { return version(o.file) }

// Load reads the file at name in fsys into memory, at most limit bytes, and returns it as a [File].
// A larger file is an error that wraps dataloader.ErrOption. Memory grows with what is read, not
// with what fsys says about the size.
func Load(ctx context.Context, fsys fs.FS, name string, limit int64) (File, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(name, "a regular file", kind(info.Mode()))
	}
	var b bytes.Buffer
	if n := info.Size(); n > 0 && n <= limit {
		b.Grow(int(min(n+bytes.MinRead, readStep)))
	}
	n, err := b.ReadFrom(io.LimitReader(contextReader{ctx, f}, limit+1))
	if err != nil {
		return nil, &ReadError{File: name, Offset: n, Want: max(info.Size()-n, 0), Err: err}
	}
	if n > limit {
		return nil, fmt.Errorf("%s: the file has more than %d bytes: raise the limit, or unpack it: %w", name, limit, dataloader.ErrOption)
	}
	return Bytes(name, b.Bytes()), nil
}

// contextReader is a reader that stops when a context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Bytes returns data as a [File]. It does not copy them.
func Bytes(name string, data []byte) File { return &memory{Reader: bytes.NewReader(data), name: name} }

// memory is a file in memory.
type memory struct {
	*bytes.Reader
	name string
	done atomic.Bool
}

func (m *memory) Name() string { return m.name }

// Close makes later reads fail.
func (m *memory) Close() error {
	m.done.Store(true)
	return nil
}

// ReadAt implements io.ReaderAt.
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if m.done.Load() {
		return 0, fs.ErrClosed
	}
	return m.Reader.ReadAt(p, off)
}
