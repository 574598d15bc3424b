// Package folder has open folders for file systems that list folders by name.
package folder

import (
	"io"
	"io/fs"
)

// Folder is an open folder, which FS lists at the first ReadDir. It implements fs.ReadDirFile, and is
// for one goroutine.
type Folder struct {
	FS   fs.ReadDirFS
	Path string      // in FS
	Info fs.FileInfo // of the folder

	entries []fs.DirEntry // those that ReadDir has not returned
	listed  bool
}

// Stat implements fs.File.
func (d *Folder) Stat() (fs.FileInfo, error) { return d.Info, nil }

// Close implements fs.File.
func (d *Folder) Close() error { return nil }

// Read implements fs.File.
func (d *Folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.Path, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *Folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.listed {
		entries, err := d.FS.ReadDir(d.Path)
		if err != nil {
			return nil, err
		}
		d.entries, d.listed = entries, true
	}
	k := len(d.entries)
	if n > 0 {
		if k == 0 {
			return nil, io.EOF
		}
		k = min(k, n)
	}
	out := d.entries[:k:k]
	d.entries = d.entries[k:]
	return out, nil
}
