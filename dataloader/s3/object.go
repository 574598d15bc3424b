package s3

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/minio/minio-go/v7"
)

// object reads an object by range requests, each once.
type object struct {
	bucket *Bucket
	key    string
	info   *info
	closed atomic.Bool
}

func (o *object) Name() string    { return o.bucket.where(o.key) }
func (o *object) Size() int64     { return o.info.size }
func (o *object) Version() string { return o.info.etag }

// Close makes later reads fail. No connection belongs to an object.
func (o *object) Close() error {
	o.closed.Store(true)
	return nil
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	return o.ReadAtContext(o.bucket.ctx, p, off)
}

// ReadAtContext makes one request for the bytes of the object that go into p.
func (o *object) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	switch {
	case o.closed.Load():
		return 0, fs.ErrClosed
	case off < 0:
		return 0, &fs.PathError{Op: "read", Path: o.Name(), Err: fs.ErrInvalid}
	case len(p) == 0:
		return 0, nil
	case off >= o.info.size:
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), o.info.size-off)]
	n, err := o.get(ctx, want, off)
	if err == nil && len(want) < len(p) {
		err = io.EOF
	}
	return n, err
}

// get fills p, which lies within the object.
func (o *object) get(ctx context.Context, p []byte, off int64) (int, error) {
	var opt minio.GetObjectOptions
	last := off + int64(len(p)) - 1
	opt.Set("Range", fmt.Sprintf("bytes=%d-%d", off, last))
	if err := opt.SetMatchETag(o.info.etag); err != nil {
		return 0, err
	}
	body, got, header, err := o.bucket.core.GetObject(ctx, o.bucket.bucket, o.key, opt)
	if err != nil {
		return 0, o.bucket.wrap("get", o.key, err)
	}
	defer body.Close()
	if got.ETag != o.info.etag {
		return 0, o.changed(fmt.Sprintf("its ETag was %q, and is %q", o.info.etag, got.ETag))
	}
	// A store that knows no ranges sends the whole object, from its start.
	if want, got := fmt.Sprintf("bytes %d-%d/%d", off, last, o.info.size), header.Get("Content-Range"); got != want {
		return 0, &dataloader.FormatError{File: o.Name(), Offset: off, What: "header Content-Range", Want: want, Got: fmt.Sprintf("%q", got)}
	}
	n, err := io.ReadFull(body, p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the body was cut
	}
	return n, o.bucket.wrap("get", o.key, err)
}

// changed returns the error for an object that was replaced since it was opened.
func (o *object) changed(how string) error {
	return fmt.Errorf("%s: the object has changed since it was opened: %s: %w", o.Name(), how, dataloader.ErrChanged)
}

// file is an open object: with retry, or read-ahead, and for one goroutine with Read.
type file struct {
	storage.File
	remote storage.ContextReaderAt
	info   *info
	ctx    context.Context

	mu  sync.Mutex // of Read
	pos int64
	buf []byte // bytes from start on
	at  int64  // offset of buf
}

// readBytes is the size of the requests of Read.
const readBytes = 1 << 20

// Version implements storage.Versioned.
func (f *file) Version() string { return f.info.etag }

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

// ReadAt implements io.ReaderAt, with the context of the bucket.
func (f *file) ReadAt(p []byte, off int64) (int, error) { return f.remote.ReadAtContext(f.ctx, p, off) }

// ReadAtContext implements storage.ContextReaderAt.
func (f *file) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return f.remote.ReadAtContext(ctx, p, off)
}

// Read implements fs.File. It makes one request for each MiB.
func (f *file) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if f.pos >= f.info.size {
		return 0, io.EOF
	}
	if f.pos < f.at || f.pos >= f.at+int64(len(f.buf)) {
		n := min(readBytes, f.info.size-f.pos)
		if int64(cap(f.buf)) < n {
			f.buf = make([]byte, n)
		}
		f.at, f.buf = f.pos, f.buf[:n]
		if err := storage.ReadAt(f.ctx, f, f.buf, f.pos); err != nil {
			f.buf = f.buf[:0]
			return 0, err
		}
	}
	n := copy(p, f.buf[f.pos-f.at:])
	f.pos += int64(n)
	return n, nil
}
