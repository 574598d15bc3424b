// Package atomicfile replaces files in one step: after a crash at any instant, a path holds the
// whole former file or the whole new one.
//
//	create .model.safetensors.tmp-x → write → fsync → close → rename to model.safetensors → fsync folder
//
// A rename alone is not enough: without the first fsync the new name may hold an empty file after a
// crash, without the second one the former file may come back.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FS is what a replacement needs of a file system. [OS] is the operating system's; Faults injects
// errors into another one.
type FS interface {
	// Create makes a new file for reading and writing. It fails if the path exists.
	Create(path string) (Handle, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(path string) error
}

// Handle is a file that is being written.
type Handle interface {
	io.Writer
	io.WriterAt
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

// marker is in the names of temporary files, after a dot and the name that they are for.
const marker = ".tmp-"

// IsTemporary reports whether a file's name is that of a temporary file of this package. Those that
// a crash has left may be removed if nothing else writes to the folder.
func IsTemporary(name string) bool {
	name = filepath.Base(name)
	return strings.HasPrefix(name, ".") && strings.Contains(name, marker)
}

// File is the replacement of a file. Exactly one of Commit and Close ends it; Close after Commit
// does nothing.
type File struct {
	fs     FS
	path   string // of the file to replace
	temp   string // "" after Commit or Close
	handle Handle
	err    error // of the first failed write
}

// Create begins the replacement of the file at path, which need not exist: it makes a temporary
// file in the same folder. If path is a link, what it leads to is replaced. Only regular files are
// replaced, and they keep their permissions. A nil fs is the operating system's.
func Create(files FS, path string) (*File, error) {
	if files == nil {
		files = OS{}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "replace", Path: path, Err: fmt.Errorf("it is no regular file: %w", fs.ErrInvalid)}
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f := &File{fs: files, path: path}
	var err error
	for range 100 { // names are random
		name := "." + filepath.Base(path) + marker + random()
		f.temp = filepath.Join(filepath.Dir(path), name)
		if f.handle, err = files.Create(f.temp); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if mode != 0 {
		if err := f.handle.Chmod(mode); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// Path returns the path of the file that is replaced.
func (f *File) Path() string { return f.path }

// Write appends to the temporary file. After an error, Commit fails.
func (f *File) Write(p []byte) (int, error) {
	if err := f.usable(); err != nil {
		return 0, err
	}
	n, err := f.handle.Write(p)
	return n, f.note(n, len(p), err)
}

// WriteAt writes at an offset. After an error, Commit fails.
func (f *File) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.usable(); err != nil {
		return 0, err
	}
	n, err := f.handle.WriteAt(p, offset)
	return n, f.note(n, len(p), err)
}

// usable returns an error after Commit, Close or a failed write.
func (f *File) usable() error {
	if f.temp == "" {
		return fs.ErrClosed
	}
	return f.err
}

// note keeps the error of a write of want bytes.
func (f *File) note(n, want int, err error) error {
	if err == nil && n < want {
		err = io.ErrShortWrite
	}
	if err != nil {
		f.err = fmt.Errorf("write %s: %w", f.path, err)
	}
	return f.err
}

// Commit makes the new file durable and gives it the path. After an error before the rename, the
// former file is there and the temporary one is removed. If only the last step fails, the new file
// is there, and after a loss of power the former one may be.
func (f *File) Commit() error {
	if f.temp == "" {
		return fs.ErrClosed
	}
	if f.err != nil {
		return errors.Join(f.err, f.Close())
	}
	if err := f.handle.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", f.path, err), f.Close())
	}
	handle := f.handle
	f.handle = nil
	if err := handle.Close(); err != nil {
		return errors.Join(fmt.Errorf("close %s: %w", f.path, err), f.Close())
	}
	if err := f.fs.Rename(f.temp, f.path); err != nil {
		return errors.Join(err, f.Close())
	}
	f.temp = ""
	if err := f.fs.SyncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("sync the folder of %s: %w", f.path, err)
	}
	return nil
}

// Close gives the replacement up and removes the temporary file. It does nothing after Commit or a
// former Close.
func (f *File) Close() error {
	if f == nil || f.temp == "" {
		return nil
	}
	temp := f.temp
	f.temp = ""
	var closed error
	if f.handle != nil {
		closed = f.handle.Close()
	}
	err := f.fs.Remove(temp)
	if errors.Is(err, fs.ErrNotExist) { // with its folder
		err = nil
	}
	return errors.Join(closed, err)
}

// Remove removes a file and makes that durable.
func Remove(files FS, path string) error {
	if files == nil {
		files = OS{}
	}
	if err := files.Remove(path); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// WriteFile replaces the file at path by data.
func WriteFile(files FS, path string, data []byte) (err error) {
	f, err := Create(files, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}
