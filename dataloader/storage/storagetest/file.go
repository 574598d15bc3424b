package storagetest

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// file is an open file without ReadAt.
type file struct {
	fs.File
	fs   *FS
	name string
	size int64
	pos  int64 // of Read
}

// end returns where the file ends now.
func (f *file) end() int64 {
	if f.fs.shrunk.Load() {
		return f.size / 2
	}
	return f.size
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) {
	if _, err := f.fs.count(f.fs.ctx, "Stat of open %s", f.name); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: f.name, Err: err}
	}
	info, err := f.File.Stat()
	if err == nil && f.fs.shrunk.Load() && info.Mode().IsRegular() {
		info = halved{info}
	}
	return info, err
}

// Read implements fs.File.
func (f *file) Read(p []byte) (int, error) {
	short, err := f.fs.count(f.fs.ctx, "Read(%d bytes) of %s", len(p), f.name)
	n := f.cut(short, len(p), f.pos)
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	if n > 0 {
		k, readErr := f.File.Read(p[:n])
		f.pos += int64(k)
		if err == nil {
			err = readErr
		}
		n = k
	}
	return n, f.wrap(err)
}

// cut returns how many of n bytes at off a read returns.
func (f *file) cut(short bool, n int, off int64) int {
	switch {
	case short && f.fs.kind == Short:
		n = (n + 1) / 2 // at least one: the reader is to get on
	case short:
		n /= 2
	}
	return int(max(0, min(int64(n), f.end()-off)))
}

// wrap adds the name of the file to an error.
func (f *file) wrap(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: "read", Path: f.name, Err: err}
}

// plainFile is an open file with ReadAt.
type plainFile struct {
	*file
	r io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (f *plainFile) ReadAt(p []byte, off int64) (int, error) { return f.readAt(f.fs.ctx, p, off) }

func (f *plainFile) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	short, err := f.fs.count(ctx, "ReadAt(%d bytes at %d) of %s", len(p), off, f.name)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return 0, f.wrap(err)
	}
	n := f.cut(short, len(p), off)
	got, readErr := f.r.ReadAt(p[:n], off)
	switch {
	case err != nil:
	case readErr != nil && !(readErr == io.EOF && got == n):
		err = readErr
	case n < len(p) && !short:
		err = io.EOF
	}
	return got, f.wrap(err)
}

// remoteFile is an open file with ReadAtContext.
type remoteFile struct{ plainFile }

// ReadAtContext implements storage.ContextReaderAt.
func (f *remoteFile) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return f.readAt(ctx, p, off)
}

// folder is an open folder.
type folder struct{ *file }

// ReadDir implements fs.ReadDirFile.
func (d *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if _, err := d.fs.count(d.fs.ctx, "ReadDir of open %s", d.name); err != nil {
		return nil, d.wrap(err)
	}
	inner, ok := d.File.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrInvalid}
	}
	return inner.ReadDir(n)
}
