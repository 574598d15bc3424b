package storage

import (
	"context"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/dataloader"
)

// File is an open file that is read at any offset. Its methods are safe for concurrent use. A read
// after Close returns an error; Close may be called twice.
type File interface {
	io.ReaderAt
	io.Closer
	// Name returns the name that the file was opened by, for error messages.
	Name() string
	// Size returns the size in bytes at the time the file was opened.
	Size() int64
}

// ContextReaderAt is an optional method of a [File], and of any io.ReaderAt: a ReadAt that returns
// soon after ctx is done. Files of remote stores have it.
type ContextReaderAt interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error)
}

// ReadError reports a read that failed. It unwraps to Err.
type ReadError struct {
	File   string // name of the file, "" where it has none
	Offset int64  // of the first byte that was not read
	Want   int64  // bytes from Offset on that were wanted
	Err    error  // io.ErrUnexpectedEOF where the file ends too early
}

// Error returns the file, the range and the cause.
func (e *ReadError) Error() string {
	name := e.File
	if name == "" {
		name = "input"
	}
	return fmt.Sprintf("%s: read of %d bytes at byte %d: %v", name, e.Want, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// readStep is the most bytes that ReadAt reads in one call of a file that takes no context.
const readStep = 8 << 20

// ReadAt fills p with the bytes of f from off on. It uses f's ReadAtContext where f has one;
// elsewhere ctx is looked at before each 8 MiB. A read that comes short without an error is
// continued. An error is a *[ReadError] that wraps the cause: io.ErrUnexpectedEOF if the file ends
// before p is full, as one that has shrunk does, or the error of ctx. It allocates nothing unless it
// fails, and is as safe for concurrent use as f.
func ReadAt(ctx context.Context, f io.ReaderAt, p []byte, off int64) error {
	if off < 0 {
		return readError(f, p, off, fmt.Errorf("negative offset: %w", dataloader.ErrOption))
	}
	remote, _ := f.(ContextReaderAt)
	for first := true; len(p) > 0 || first; first = false {
		if err := ctx.Err(); err != nil {
			return readError(f, p, off, err)
		}
		if len(p) == 0 {
			return nil
		}
		n, err := readOnce(ctx, f, remote, p, off)
		if n < 0 || n > len(p) {
			return readError(f, p, off, fmt.Errorf("ReadAt returned %d bytes of %d: %w", n, len(p), io.ErrNoProgress))
		}
		p, off = p[n:], off+int64(n)
		switch {
		case len(p) == 0:
			return nil // whatever err is: the bytes are there
		case err == io.EOF:
			return readError(f, p, off, io.ErrUnexpectedEOF)
		case err != nil:
			return readError(f, p, off, err)
		case n == 0:
			return readError(f, p, off, io.ErrNoProgress)
		}
	}
	return nil
}

// readOnce makes one call of ReadAt or ReadAtContext.
func readOnce(ctx context.Context, f io.ReaderAt, remote ContextReaderAt, p []byte, off int64) (int, error) {
	if remote != nil {
		return remote.ReadAtContext(ctx, p, off)
	}
	if len(p) <= readStep {
		return f.ReadAt(p, off)
	}
	n, err := f.ReadAt(p[:readStep], off)
	if n == readStep {
		err = nil // at the end of the file ReadAt may return io.EOF with the last bytes
	}
	return n, err
}

// readError returns the error of a read of p at off, once.
func readError(f io.ReaderAt, p []byte, off int64, err error) error {
	if inner, ok := err.(*ReadError); ok {
		return inner
	}
	e := &ReadError{Offset: off, Want: int64(len(p)), Err: err}
	if named, ok := f.(interface{ Name() string }); ok {
		e.File = named.Name()
	}
	return e
}

// Section returns a reader of the n bytes of f from off on that honours ctx, for decoders that take
// an io.Reader, io.Seeker or io.ReaderAt. Its ReadAt is as safe for concurrent use as f; Read and
// Seek are for one goroutine.
func Section(ctx context.Context, f io.ReaderAt, off, n int64) *io.SectionReader {
	return io.NewSectionReader(&bound{f, ctx}, off, n)
}

// bound is a file whose reads honour a context.
type bound struct {
	f   io.ReaderAt
	ctx context.Context
}

// ReadAt implements io.ReaderAt.
func (b *bound) ReadAt(p []byte, off int64) (int, error) {
	remote, _ := b.f.(ContextReaderAt)
	if err := b.ctx.Err(); err != nil {
		return 0, readError(b.f, p, off, err)
	}
	if remote == nil {
		return b.f.ReadAt(p, off)
	}
	return remote.ReadAtContext(b.ctx, p, off)
}
