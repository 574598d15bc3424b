package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// File is an open file, or a set of shards that an index names. Its methods may be called from any
// goroutine.
type File struct {
	parts    []*part
	index    *index // nil: one file
	tensors  []entry
	byName   map[string]int // index into tensors
	metadata map[string]string
	closed   atomic.Bool
}

// part is one file.
type part struct {
	path     string // "" for a reader
	r        io.ReaderAt
	close    func() error
	size     int64
	checksum checksum
}

// name returns the path for an error.
func (p *part) name() string { return cmp.Or(p.path, "input") }

// Open opens a file. path may also be an index of shards, whose name ends in ".json"; the path of a
// file that does not exist, next to its index, path + ".index.json"; or a folder with one file or
// one index, or several of which one is "model.safetensors" or its index. Shards are files in the
// folder of their index; a name with a folder, and a link that leads out of it, are refused. Open
// reads the headers and checks them; Verify compares checksums.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, suffix) {
		if _, indexErr := os.Stat(path + ".index.json"); indexErr == nil {
			return openShards(path + ".index.json")
		}
	}
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if path, err = find(path); err != nil {
			return nil, err
		}
	}
	if strings.HasSuffix(path, ".json") {
		return openShards(path)
	}
	p, h, err := openPart(osFolder{}, path, path)
	if err != nil {
		return nil, err
	}
	return newFile([]*part{p}, h.tensors, h.metadata), nil
}

// NewFile reads a file of size bytes from r, which it does not close. r must allow calls of ReadAt
// at the same time if the methods of File are called at the same time.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	h, err := readHeader(r, size, "")
	if err != nil {
		return nil, err
	}
	return newFile([]*part{{r: r, size: size, checksum: h.checksum}}, h.tensors, h.metadata), nil
}

// folder opens files. It is an *os.Root, out of which no link leads, or osFolder.
type folder interface {
	Open(name string) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
}

// osFolder opens any file of the operating system.
type osFolder struct{}

func (osFolder) Open(name string) (*os.File, error)    { return os.Open(name) }
func (osFolder) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// openRegular opens a regular file; path is its name in errors. Others are not opened, because a pipe
// blocks.
func openRegular(in folder, name, path string) (*os.File, error) {
	info, err := in.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &FormatError{File: path, Reason: "not a regular file", Err: fs.ErrInvalid}
	}
	return in.Open(name)
}

// openPart opens one file and reads its header; path is its name in errors.
func openPart(in folder, name, path string) (_ *part, _ *header, err error) {
	file, err := openRegular(in, name, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	h, err := readHeader(file, info.Size(), path)
	if err != nil {
		return nil, nil, err
	}
	return &part{path: path, r: file, close: file.Close, size: info.Size(), checksum: h.checksum}, h, nil
}

// newFile returns a file of tensors that are in parts.
func newFile(parts []*part, tensors []entry, metadata map[string]string) *File {
	f := &File{parts: parts, tensors: tensors, byName: make(map[string]int, len(tensors)), metadata: metadata}
	for i, e := range tensors {
		f.byName[e.Name] = i
	}
	return f
}

// find returns the path of the file or index in a folder. Shards are no files of their own, and a
// file hides an index of its name.
func find(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string // without ".index.json"
	for _, e := range entries {
		name, isIndex := strings.CutSuffix(e.Name(), ".index.json")
		shard := !isIndex && shardName.MatchString(name)
		if strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".") && !shard && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	const model = "model" + suffix
	switch {
	case slices.Contains(names, model):
		return existing(filepath.Join(dir, model))
	case len(names) == 1:
		return existing(filepath.Join(dir, names[0]))
	case len(names) == 0:
		return "", &FormatError{File: dir, Reason: "the folder has no " + suffix + " file", Err: fs.ErrNotExist}
	}
	return "", fmt.Errorf("%s has %q: name one of them: %w", dir, names, ErrOption)
}

// shardName matches the names of shards, of any writer.
var shardName = regexp.MustCompile(`-\d+-of-\d+\.safetensors$`)

// existing returns the path, or that of its index if there is no such file.
func existing(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return path + ".index.json", nil
	}
	return path, nil
}

// Tensors returns the tensors in the order of their place: of their shard's name, then in the file.
// The slice and the shapes are the caller's.
func (f *File) Tensors() []Tensor {
	if f == nil {
		return nil
	}
	all := make([]Tensor, len(f.tensors))
	for i, e := range f.tensors {
		all[i] = e.clone()
	}
	return all
}

// Find returns the tensor of a name.
func (f *File) Find(name string) (Tensor, bool) {
	if f == nil {
		return Tensor{}, false
	}
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i].clone(), true
}

// Metadata returns the texts in the header, without the checksum. Those of shards are put together;
// of a key in several of them it returns the first shard's. The map is the caller's.
func (f *File) Metadata() map[string]string {
	if f == nil {
		return nil
	}
	return maps.Clone(f.metadata)
}

// Read copies a tensor to dst, which must have its Bytes, row-major and little endian.
func (f *File) Read(name string, dst []byte) error {
	if t, ok := f.Find(name); ok && int64(len(dst)) != t.Bytes() {
		return fmt.Errorf("read %q: %v takes %d bytes, and dst has %d: %w", shorten(name), t, t.Bytes(), len(dst), ErrOption)
	}
	return f.ReadAt(name, dst, 0)
}

// ReadAt copies len(dst) bytes of a tensor to dst, from an offset in bytes in the tensor.
func (f *File) ReadAt(name string, dst []byte, offset int64) error {
	if err := f.usable(); err != nil {
		return err
	}
	i, ok := f.byName[name]
	if !ok {
		return fmt.Errorf("%s has no tensor %q: %w", f.parts[0].name(), shorten(name), ErrOption)
	}
	e := &f.tensors[i]
	if n := e.end - e.begin; offset < 0 || offset > n || int64(len(dst)) > n-offset {
		return fmt.Errorf("read %q: %d bytes from %d, and it has %d: %w", shorten(name), len(dst), offset, n, ErrOption)
	}
	p := f.parts[e.part]
	err := readAt(p.r, dst, e.begin+offset, p.path)
	if bad, ok := err.(*FormatError); ok {
		bad.Tensor = name
	}
	return err
}

// usable returns ErrClosed after Close.
func (f *File) usable() error {
	if f == nil || len(f.parts) == 0 || f.closed.Load() {
		return fmt.Errorf("the file is %w", ErrClosed)
	}
	return nil
}

// Close closes the files that Open has opened. A second call does nothing.
func (f *File) Close() error {
	if f == nil || f.closed.Swap(true) {
		return nil
	}
	return closeAll(f.parts)
}

// closeAll closes files.
func closeAll(parts []*part) error {
	var errs []error
	for _, p := range parts {
		if p.close != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}
