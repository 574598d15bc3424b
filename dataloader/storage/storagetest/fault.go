package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInjected is in the chain of errors that an EIO fault returns, with syscall.EIO.
var ErrInjected = errors.New("injected fault")

// Kind is a way to fail.
type Kind int

const (
	// EIO: the call returns an error that wraps [ErrInjected] and syscall.EIO, as a failing disk does.
	// A read returns half of its bytes with it.
	EIO Kind = iota
	// Short: a read returns half of its bytes, at least one, and no error. Calls that read nothing
	// work. No data are missing: the reader is to read on.
	Short
	// Shrink: from the call on, every file has half of its size: reads end there, and later Stats
	// return that size.
	Shrink
	// Stall: the call does not return before the context of the file system, or of ReadAtContext, is
	// done. It returns its error.
	Stall
)

var kinds = [...]string{"EIO", "short read", "shrunk file", "stall"}

// String names the kind.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kinds[k]
}

// FS is a file system that counts calls of Open, Stat, ReadDir, Read, ReadAt and ReadAtContext, of
// itself and of its files, and fails at one of them. Close is not counted. Its methods are safe for
// concurrent use.
type FS struct {
	fsys   fs.FS
	ctx    context.Context
	kind   Kind
	call   int64
	plain  bool
	cancel context.CancelFunc // called a moment after a stall begins, unless it is nil
	calls  atomic.Int64
	shrunk atomic.Bool
	mu     sync.Mutex
	log    []string
}

// New returns fsys with a fault at the given call, counted from 1; 0 means none. ctx ends stalls.
// The files have ReadAtContext unless the context-free form is asked for by [FS.Plain].
func New(ctx context.Context, fsys fs.FS, kind Kind, call int) *FS {
	return &FS{fsys: fsys, ctx: ctx, kind: kind, call: int64(call)}
}

// Plain makes files that are opened from now on lack ReadAtContext, as local files do. It returns f.
func (f *FS) Plain() *FS {
	f.plain = true
	return f
}

// Calls returns the number of calls so far.
func (f *FS) Calls() int { return int(f.calls.Load()) }

// Call describes call n, counted from 1, such as "ReadAt(30 bytes at 0) of a.bin".
func (f *FS) Call(n int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 1 || n > len(f.log) {
		return "no call"
	}
	return f.log[n-1]
}

// count counts a call and returns its error, and whether a read is to be cut short.
func (f *FS) count(ctx context.Context, format string, args ...any) (short bool, err error) {
	f.mu.Lock()
	n := f.calls.Add(1)
	f.log = append(f.log, fmt.Sprintf(format, args...))
	f.mu.Unlock()
	if n != f.call {
		return false, nil
	}
	switch f.kind {
	case EIO:
		return true, fmt.Errorf("%w: %w", ErrInjected, syscall.EIO)
	case Short:
		return true, nil
	case Shrink:
		f.shrunk.Store(true)
	case Stall:
		if f.cancel != nil {
			time.AfterFunc(stallTime, f.cancel)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-f.ctx.Done():
			return false, f.ctx.Err()
		}
	}
	return false, nil
}

// Open implements fs.FS.
func (f *FS) Open(name string) (fs.File, error) {
	if _, err := f.count(f.ctx, "Open of %s", name); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	inner, err := f.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := inner.Stat()
	if err != nil {
		inner.Close()
		return nil, err
	}
	o := &file{File: inner, fs: f, name: name, size: info.Size()}
	r, ok := inner.(io.ReaderAt)
	switch {
	case info.IsDir():
		return &folder{o}, nil
	case !ok:
		return o, nil
	case f.plain:
		return &plainFile{o, r}, nil
	}
	return &remoteFile{plainFile{o, r}}, nil
}

// Stat implements fs.StatFS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if _, err := f.count(f.ctx, "Stat of %s", name); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	info, err := fs.Stat(f.fsys, name)
	if err == nil && f.shrunk.Load() && info.Mode().IsRegular() {
		info = halved{info}
	}
	return info, err
}

// ReadDir implements fs.ReadDirFS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if _, err := f.count(f.ctx, "ReadDir of %s", name); err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return fs.ReadDir(f.fsys, name)
}

// halved describes a file that has shrunk.
type halved struct{ fs.FileInfo }

// Size implements fs.FileInfo.
func (h halved) Size() int64 { return h.FileInfo.Size() / 2 }
