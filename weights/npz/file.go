package npz

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// suffix ends the names of arrays in the archive.
const suffix = ".npy"

// File is an open .npz file. Its methods may be called from any goroutine.
type File struct {
	path   string
	r      io.ReaderAt
	file   *os.File // nil: not opened by Open
	arrays []array
	byName map[string]int

	mu     sync.Mutex
	closed bool
	kept   string // name of the array that is in memory
	bytes  []byte // its elements
}

// array is an entry of the archive, or a file of its own.
type array struct {
	layout
	entry string // its name in the archive, "" for a file
	size  int64  // bytes of the entry
	open  func() (io.ReadCloser, error)
	start int64 // offset of the elements in the file if they are stored as they are, else -1
}

// Open opens a file and reads the descriptions of all arrays.
func Open(path string) (_ *File, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe blocks
		return nil, &FormatError{File: path, Reason: "not a regular file", Err: fs.ErrInvalid}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	f, err := NewNamed(file, info.Size(), path)
	if err != nil {
		return nil, err
	}
	f.file = file
	return f, nil
}

// NewFile reads a file of size bytes from r, which it does not close. r must allow calls of ReadAt
// at the same time if the methods of File are called at the same time.
func NewFile(r io.ReaderAt, size int64) (*File, error) { return NewNamed(r, size, "") }

// NewNamed is NewFile with a path for errors.
func NewNamed(r io.ReaderAt, size int64, path string) (*File, error) {
	r = io.NewSectionReader(r, 0, size) // package zip asks for offsets before the start if the archive says so
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, &FormatError{File: path, Reason: "the zip archive is damaged, or the file is none", Err: err}
	}
	f := &File{path: path, r: r, byName: map[string]int{}}
	for _, e := range z.File {
		name, ok := strings.CutSuffix(e.Name, suffix)
		if !ok {
			continue // NumPy shows such entries as bytes
		}
		a, err := f.openArray(e, name)
		if err != nil {
			return nil, f.named(err, e.Name)
		}
		if _, twice := f.byName[name]; twice {
			return nil, f.named(&FormatError{Reason: "the name occurs twice"}, e.Name)
		}
		f.byName[name] = len(f.arrays)
		f.arrays = append(f.arrays, a)
	}
	return f, nil
}

// NewArray reads a .npy file of size bytes from r as a file with one array of the given name. It does
// not close r. path is for errors. r must allow calls of ReadAt at the same time if the methods of
// File are called at the same time.
func NewArray(r io.ReaderAt, size int64, path, name string) (*File, error) {
	f := &File{path: path, r: r, byName: map[string]int{name: 0}}
	a := array{size: size, start: -1, open: func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(r, 0, size)), nil }}
	if err := a.describe(name); err != nil {
		return nil, f.named(err, "")
	}
	if a.plain() {
		a.start = a.data
	}
	f.arrays = []array{a}
	return f, nil
}

// named adds the names of file and entry to an error.
func (f *File) named(err error, entry string) error {
	var bad *FormatError
	if errors.As(err, &bad) {
		bad.File, bad.Entry = f.path, entry
		return bad
	}
	if err == nil {
		return nil
	}
	if entry == "" {
		return fmt.Errorf("%s: %w", cmp.Or(f.path, "input"), err)
	}
	return fmt.Errorf("%s: entry %q: %w", cmp.Or(f.path, "input"), shorten(entry), err)
}

// maxRatio is the largest ratio that deflate reaches.
const maxRatio = 1032

// openArray reads the description of an array and checks its size against the archive's.
func (f *File) openArray(e *zip.File, name string) (array, error) {
	stored, size := e.CompressedSize64, e.UncompressedSize64
	if e.Method != zip.Store && e.Method != zip.Deflate {
		return array{}, &FormatError{Reason: fmt.Sprintf("compression %d is not supported", e.Method)}
	}
	if e.Method == zip.Store && stored != size || size/maxRatio > stored+1 || size > math.MaxInt64 {
		return array{}, &FormatError{Reason: fmt.Sprintf("%d bytes cannot be %d", stored, size)}
	}
	a := array{entry: e.Name, size: int64(size), open: e.Open, start: -1}
	if err := a.describe(name); err != nil {
		return a, err
	}
	if e.Method == zip.Store && a.plain() {
		at, err := e.DataOffset()
		if err != nil {
			return a, zipError(err)
		}
		a.start = at + a.data
	}
	return a, nil
}

// describe reads the description at the start of the array, and checks its size.
func (a *array) describe(name string) error {
	r, err := a.open()
	if err != nil {
		return zipError(err)
	}
	l, err := readHeader(r)
	if err := errors.Join(zipError(err), r.Close()); err != nil {
		return err
	}
	a.layout = *l
	a.Name = name
	if have := a.size - l.data; have != l.Bytes() {
		return &FormatError{Offset: l.data, Reason: fmt.Sprintf("%v takes %d bytes, and there are %d", l.Tensor, l.Bytes(), have)}
	}
	return nil
}

// zipError makes a *FormatError of an error of the archive that is not the reader's.
func zipError(err error) error {
	var bad *FormatError
	switch {
	case err == nil || errors.As(err, &bad):
		return err
	case errors.Is(err, zip.ErrFormat), errors.Is(err, zip.ErrChecksum), errors.Is(err, zip.ErrAlgorithm), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF),
		strings.HasPrefix(err.Error(), "flate:"):
		return &FormatError{Reason: "the archive is damaged", Err: err}
	}
	return err
}

// Tensors returns the arrays in the order of the archive. The slice and the shapes are the
// caller's.
func (f *File) Tensors() []safetensors.Tensor {
	if f == nil {
		return nil
	}
	all := make([]safetensors.Tensor, len(f.arrays))
	for i, a := range f.arrays {
		all[i] = a.Tensor
		all[i].Shape = slices.Clone(a.Shape)
	}
	return all
}

// Find returns the array of a name, which is that of its entry without ".npy".
func (f *File) Find(name string) (safetensors.Tensor, bool) {
	if f == nil {
		return safetensors.Tensor{}, false
	}
	i, ok := f.byName[name]
	if !ok {
		return safetensors.Tensor{}, false
	}
	t := f.arrays[i].Tensor
	t.Shape = slices.Clone(t.Shape)
	return t, true
}

// Place returns the offset in the file of the elements of an array, if they are stored there as Read
// returns them.
func (f *File) Place(name string) (offset int64, ok bool) {
	if f == nil {
		return 0, false
	}
	i, ok := f.byName[name]
	if !ok || f.arrays[i].start < 0 {
		return 0, false
	}
	return f.arrays[i].start, true
}

// Read copies an array to dst, which must have its Bytes: row-major and little endian.
func (f *File) Read(name string, dst []byte) error {
	if t, ok := f.Find(name); ok && int64(len(dst)) != t.Bytes() {
		return fmt.Errorf("read %q: %v takes %d bytes, and dst has %d: %w", shorten(name), t, t.Bytes(), len(dst), ErrOption)
	}
	return f.ReadAt(name, dst, 0)
}

// ReadAt copies len(dst) bytes of an array to dst, from an offset in bytes in what Read returns.
func (f *File) ReadAt(name string, dst []byte, offset int64) error {
	if f == nil {
		return fmt.Errorf("the file is %w", ErrClosed)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("the file is %w", ErrClosed)
	}
	i, ok := f.byName[name]
	if !ok {
		return fmt.Errorf("%s has no array %q: %w", cmp.Or(f.path, "input"), shorten(name), ErrOption)
	}
	a := &f.arrays[i]
	if n := a.Bytes(); offset < 0 || offset > n || int64(len(dst)) > n-offset {
		return fmt.Errorf("read %q: %d bytes from %d, and it has %d: %w", shorten(name), len(dst), offset, n, ErrOption)
	}
	if a.start >= 0 {
		n, err := f.r.ReadAt(dst, a.start+offset)
		if n < len(dst) {
			return f.named(zipError(cmp.Or(err, io.ErrUnexpectedEOF)), a.entry)
		}
		return nil
	}
	if f.kept != name || f.bytes == nil {
		f.bytes = nil
		b, err := a.load()
		if err != nil {
			return f.named(err, a.entry)
		}
		f.kept, f.bytes = name, b
	}
	copy(dst, f.bytes[offset:])
	return nil
}

// load reads the whole array, row-major and little endian.
func (a *array) load() ([]byte, error) {
	r, err := a.open()
	if err != nil {
		return nil, zipError(err)
	}
	b := make([]byte, a.Bytes())
	_, err = io.CopyN(io.Discard, r, a.data)
	if err == nil {
		_, err = io.ReadFull(r, b)
	}
	if err == nil { // the end compares the archive's checksum
		if n, end := r.Read(make([]byte, 1)); n > 0 {
			err = &FormatError{Offset: a.size, Reason: "the entry is longer than the archive says"}
		} else if end != io.EOF {
			err = end
		}
	}
	if err := errors.Join(zipError(err), r.Close()); err != nil {
		return nil, err
	}
	width := a.DType.Bits() / 8
	if a.big {
		swap(b, a.DType)
	}
	if a.fortran && len(a.Shape) > 1 {
		b = rowMajor(b, a.Shape, width)
	}
	return b, nil
}

// swap reverses the bytes of each number; a complex number is two.
func swap(b []byte, t safetensors.DType) {
	width := t.Bits() / 8
	if t == safetensors.Complex64 {
		width = 4
	}
	for ; len(b) >= width; b = b[width:] {
		slices.Reverse(b[:width])
	}
}

// rowMajor returns the elements of an array of which the first index varies fastest.
func rowMajor(src []byte, shape []int, width int) []byte {
	dst := make([]byte, len(src))
	index := make([]int, len(shape))
	for at := 0; at < len(src); at += width {
		to := 0
		for k, d := range shape {
			to = to*d + index[k]
		}
		copy(dst[to*width:(to+1)*width], src[at:])
		for k := range index {
			if index[k]++; index[k] < shape[k] {
				break
			}
			index[k] = 0
		}
	}
	return dst
}

// Verify reads all arrays and compares the checksums that the archive has of them. A difference is a
// *FormatError. Cancelling ctx ends it between two arrays.
func (f *File) Verify(ctx context.Context) error {
	if f == nil {
		return fmt.Errorf("the file is %w", ErrClosed)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("the file is %w", ErrClosed)
	}
	for i := range f.arrays {
		if err := ctx.Err(); err != nil {
			return err
		}
		a := &f.arrays[i]
		r, err := a.open()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return f.named(zipError(err), a.entry)
		}
	}
	return nil
}

// Close closes the file if Open has opened it. A second call does nothing.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed, f.bytes = true, nil
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
