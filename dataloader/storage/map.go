package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"
)

// Map maps the file that f reads into memory and returns it as a File whose ReadAt copies from
// there, and the mapped bytes. It takes over f: closing the result unmaps and closes it. f must be a
// file of this machine, from [OpenFile] or from [Open] in a [Folder]; else, and on systems other than
// Unix and Windows, the error wraps errors.ErrUnsupported and f is as before.
//
// Windows keeps a mapped file from being shortened. Elsewhere one that another process shortens faults
// where it is touched beyond its new end. ReadAt of the returned File, and [CopyMapped], report that as
// io.ErrUnexpectedEOF; another access to the bytes ends the process. Nothing may touch the bytes after
// Close. Small reads at random offsets are 2 to 3 times as fast as with ReadAt of a file that is not
// mapped; for reads of many KiB it makes no difference.
func Map(f File) (File, []byte, error) {
	o, ok := f.(*opened)
	var file *os.File
	if ok {
		file, ok = o.file.(*os.File)
	}
	if !ok {
		return nil, nil, fmt.Errorf("%s: map a file of type %T, which is no file of this machine: %w", f.Name(), f, errors.ErrUnsupported)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() < o.size {
		return nil, nil, &ReadError{File: o.name, Offset: info.Size(), Want: o.size - info.Size(), Err: io.ErrUnexpectedEOF}
	}
	if o.size > math.MaxInt {
		return nil, nil, fmt.Errorf("%s: map %d bytes: more than the address space: %w", o.name, o.size, errors.ErrUnsupported)
	}
	m := &mappedFile{opened: o}
	if o.size > 0 { // nothing to map is an error of the system
		if m.mem, err = mapFile(file, int(o.size)); err != nil {
			return nil, nil, fmt.Errorf("%s: map %d bytes: %w", o.name, o.size, err)
		}
	}
	return m, m.mem, nil
}

// mappedFile is a mapped file. Close waits for reads.
type mappedFile struct {
	*opened
	mu     sync.RWMutex
	mem    []byte
	closed bool
}

// ReadAt copies from the mapping.
func (m *mappedFile) ReadAt(p []byte, off int64) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return 0, fs.ErrClosed
	}
	if off < 0 || off > int64(len(m.mem)) {
		return 0, io.EOF
	}
	src := m.mem[off:]
	n := min(len(p), len(src))
	if err := CopyMapped(p[:n], src[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadAtContext hides the method of the file that is mapped.
func (m *mappedFile) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return m.ReadAt(p, off)
}

// Close unmaps and closes the file.
func (m *mappedFile) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	var err error
	if m.mem != nil {
		err = unmapFile(m.mem)
		m.mem = nil
	}
	return errors.Join(err, m.opened.Close())
}

// CopyMapped copies src, bytes of a mapped file, to dst, which has the same length. If the file has
// become shorter it returns io.ErrUnexpectedEOF; dst is then partly written. It allocates nothing.
func CopyMapped(dst, src []byte) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if !faultIn(r, src) {
				panic(r)
			}
			err = io.ErrUnexpectedEOF
		}
	}()
	copy(dst, src)
	return nil
}

// faultIn reports whether the panic with value r is a fault at an address in b.
func faultIn(r any, b []byte) bool {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok || len(b) == 0 {
		return false
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return fault.Addr()-start < uintptr(len(b))
}
