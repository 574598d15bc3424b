package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Folder is a folder of this machine as an fs.FS. Nothing outside it is opened: a symbolic link that
// leads out of it is an error, one that stays within is followed. Its methods are safe for
// concurrent use.
type Folder struct {
	root *os.Root
}

// Dir opens the folder at path. Close it after use. Files that were opened stay open.
func Dir(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Name returns the path of the folder.
func (d *Folder) Name() string { return d.root.Name() }

// Close closes the folder.
func (d *Folder) Close() error { return d.root.Close() }

// Open opens a regular file or a folder. A file has ReadAt. A pipe, device or socket is refused
// without opening it, with an error that wraps fs.ErrInvalid and dataloader.ErrFormat.
func (d *Folder) Open(name string) (fs.File, error) {
	info, err := d.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := openable(name, info); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	return checkOpened(f, name)
}

// Stat returns a description of the file that name leads to.
func (d *Folder) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return d.root.Stat(name)
}

// Lstat returns a description of the file, or of the symbolic link, at name.
func (d *Folder) Lstat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrInvalid}
	}
	return d.root.Lstat(name)
}

// ReadLink returns the target of the symbolic link at name.
func (d *Folder) ReadLink(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return d.root.Readlink(name)
}

// ReadDir returns the entries of the folder at name, sorted by the bytes of their names.
func (d *Folder) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// openable returns an error if what info describes is neither a regular file nor a folder.
func openable(name string, info fs.FileInfo) error {
	if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() {
		return notRegular(name, "a regular file or a folder", kind(mode))
	}
	return nil
}

// notRegular returns the error for a file of the wrong kind.
func notRegular(name, want, got string) error {
	return &dataloader.FormatError{File: name, What: "kind of file", Want: want, Got: got, Err: fs.ErrInvalid}
}

// kind names the kind of file that mode describes.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a regular file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// checkOpened returns f, or closes it and returns an error if another kind of file has taken its
// name since it was looked at.
func checkOpened(f *os.File, name string) (*os.File, error) {
	info, err := f.Stat()
	if err == nil {
		err = openable(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenFile opens the regular file at path. Symbolic links are followed wherever they lead, because
// the caller names the file; [Dir] is for folders whose contents are not trusted. What is no regular
// file is refused without opening it, with an error that wraps fs.ErrInvalid and
// dataloader.ErrFormat.
func OpenFile(path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, "a regular file", kind(info.Mode()))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	return wrap(f, path)
}

// Open opens the regular file at name in fsys. Where fsys returns a [File] with ReadAtContext, that
// is the result; another file needs ReadAt, else the error wraps errors.ErrUnsupported: [Zip] reads
// archives, and [Load] reads a file into memory. What is no regular file is refused as by
// [OpenFile], without opening it if fsys has Stat.
func Open(fsys fs.FS, name string) (File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if s, ok := fsys.(fs.StatFS); ok {
		info, err := s.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, notRegular(name, "a regular file", kind(info.Mode()))
		}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	if file, ok := f.(interface {
		File
		ContextReaderAt
	}); ok {
		return file, nil
	}
	return wrap(f, name)
}

// wrap returns f as a File, or closes it and returns an error.
func wrap(f fs.File, name string) (File, error) {
	info, err := f.Stat()
	r, ok := f.(io.ReaderAt)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = notRegular(name, "a regular file", kind(info.Mode()))
	case info.Size() < 0:
		err = &dataloader.FormatError{File: name, What: "size", Want: "0 or more bytes", Got: fmt.Sprint(info.Size())}
	case !ok:
		err = fmt.Errorf("%s: a file of type %T has no ReadAt: open zip archives with storage.Zip, or use storage.Load: %w",
			name, f, errors.ErrUnsupported)
	default:
		return &opened{r: r, file: f, name: name, size: info.Size()}, nil
	}
	f.Close()
	return nil, err
}
