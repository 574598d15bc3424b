package storage

import (
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/folder"
)

// Open opens a file or folder of the archive. A file is a [File]; see [Archive] for compressed ones.
func (a *Archive) Open(name string) (fs.File, error) {
	return a.OpenContext(context.Background(), name)
}

// OpenContext is Open with a context for the reads that unpack a compressed file.
func (a *Archive) OpenContext(ctx context.Context, name string) (fs.File, error) {
	e, ok, err := a.find("open", name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return &folder.Folder{FS: a, Path: name, Info: zipInfo{nil, path.Base(name)}}, nil
	}
	data, err := a.place(ctx, e)
	if err != nil {
		return nil, err
	}
	f := &zipFile{archive: a, entry: e, data: data}
	switch {
	case e.method == methodStored:
	case e.size > a.opt.MaxInflated:
		return nil, fmt.Errorf("%s: %s has %d bytes unpacked, more than MaxInflated, %d: raise it, or write the archive without compression: %w",
			a.Name(), e.name, e.size, a.opt.MaxInflated, dataloader.ErrOption)
	default:
		if f.unpacked, err = a.inflate(ctx, e, data); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// find returns the file at name, or false if it is a folder.
func (a *Archive) find(op, name string) (*entry, bool, error) {
	if !fs.ValidPath(name) {
		return nil, false, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return nil, false, nil
	}
	if k := search(a.files, name); k < len(a.files) && a.files[k].name == name {
		return &a.files[k], true, nil
	}
	if k := search(a.files, name+"/"); k < len(a.files) && strings.HasPrefix(a.files[k].name, name+"/") {
		return nil, false, nil
	}
	return nil, false, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// place checks that e can be read and returns the offset of its data. The header before them must
// agree with the directory.
func (a *Archive) place(ctx context.Context, e *entry) (int64, error) {
	what := fmt.Sprintf("file %q", e.name)
	switch {
	case e.flags&flagEncrypted != 0:
		return 0, zipError(a.f, e.header, what, "no encryption", "an encrypted file")
	case e.special:
		return 0, zipError(a.f, e.header, what, "a regular file", "a symbolic link or special file")
	case e.method != methodStored && e.method != methodDeflate:
		return 0, zipError(a.f, e.header, what, "method 0 (stored) or 8 (deflate)", e.method)
	}
	b := make([]byte, localBytes+len(e.name))
	if err := ReadAt(ctx, a.f, b, e.header); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if string(b[:4]) != "PK\x03\x04" {
		return 0, zipError(a.f, e.header, what, `a header "PK\3\4"`, fmt.Sprintf("%q", b[:4]))
	}
	if n := int(le.Uint16(b[26:])); n != len(e.name) || string(b[localBytes:]) != e.name {
		return 0, zipError(a.f, e.header, what, "its name in the header, too", fmt.Sprintf("%q (of %d bytes)", b[localBytes:], n))
	}
	if m := le.Uint16(b[8:]); m != e.method {
		return 0, zipError(a.f, e.header+8, what, fmt.Sprintf("method %d", e.method), m)
	}
	data := e.header + int64(len(b)) + int64(le.Uint16(b[28:]))
	if data+e.packed > e.next {
		return 0, zipError(a.f, e.header, what, fmt.Sprintf("to end at byte %d or before", e.next), fmt.Sprintf("%d: it overlaps what follows", data+e.packed))
	}
	return data, nil
}

// inflate unpacks e. Its memory is e.size, which the caller has checked, and what deflate needs.
func (a *Archive) inflate(ctx context.Context, e *entry, data int64) ([]byte, error) {
	what := fmt.Sprintf("compressed file %q", e.name)
	// Deflate makes at most 1032 bytes of one: a size that lies takes no memory.
	if e.size/1032 > e.packed {
		return nil, zipError(a.f, data, what, fmt.Sprintf("at most %d bytes of %d", e.packed*1032, e.packed), e.size)
	}
	out := make([]byte, e.size)
	r := flate.NewReader(Section(ctx, a.f, data, e.packed))
	defer r.Close()
	n, err := io.ReadFull(r, out)
	switch {
	case ctx.Err() != nil:
		return nil, &ReadError{File: a.Name(), Offset: data, Want: e.packed, Err: ctx.Err()}
	case err != nil:
		return nil, inflateError(a.f, data, what, fmt.Sprintf("%d bytes", e.size), n, err)
	}
	if k, err := io.ReadFull(r, make([]byte, 1)); k > 0 || err != io.EOF {
		return nil, inflateError(a.f, data, what, fmt.Sprintf("%d bytes", e.size), n+k, err)
	}
	if sum := crc32.ChecksumIEEE(out); sum != e.crc {
		return nil, zipError(a.f, data, what, fmt.Sprintf("CRC %08x", e.crc), fmt.Sprintf("%08x", sum))
	}
	return out, nil
}

// inflateError returns an error with its cause.
func inflateError(f File, off int64, what, want string, got int, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &dataloader.FormatError{File: f.Name(), Offset: off, What: "zip " + what, Want: want, Got: fmt.Sprintf("%d or more", got), Err: err}
}

// zipFile is an open file of an archive.
type zipFile struct {
	archive  *Archive
	entry    *entry
	data     int64
	unpacked []byte // nil if it is stored
	closed   atomic.Bool
	pos      int64 // of Read
}

func (f *zipFile) Name() string    { return path.Join(f.archive.Name(), f.entry.name) }
func (f *zipFile) Size() int64     { return f.entry.size }
func (f *zipFile) Version() string { return fmt.Sprintf("crc32:%08x", f.entry.crc) }

// Stat implements fs.File.
func (f *zipFile) Stat() (fs.FileInfo, error) { return zipInfo{f.entry, path.Base(f.entry.name)}, nil }

// Close ends the use of the file, not of the archive.
func (f *zipFile) Close() error {
	f.closed.Store(true)
	return nil
}

// Read implements fs.File, for one goroutine.
func (f *zipFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *zipFile) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext implements ContextReaderAt.
func (f *zipFile) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	switch {
	case f.closed.Load():
		return 0, fs.ErrClosed
	case off < 0:
		return 0, &fs.PathError{Op: "read", Path: f.Name(), Err: fs.ErrInvalid}
	case off >= f.Size():
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.Size()-off))
	if f.entry.method != methodStored {
		copy(p, f.unpacked[off:])
	} else if err := ReadAt(ctx, f.archive.f, p[:n], f.data+off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadDir returns the entries of a folder of the archive, sorted by the bytes of their names.
func (a *Archive) ReadDir(name string) ([]fs.DirEntry, error) {
	_, file, err := a.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if file {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	return a.list(name), nil
}

// list returns the entries of the folder at name. It looks at one file of each folder below.
func (a *Archive) list(name string) []fs.DirEntry {
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	var out []fs.DirEntry
	for k := search(a.files, prefix); k < len(a.files) && strings.HasPrefix(a.files[k].name, prefix); {
		e := &a.files[k]
		child, _, below := strings.Cut(e.name[len(prefix):], "/")
		switch {
		case child == "": // the folder itself
			k++
		case below:
			out = append(out, fs.FileInfoToDirEntry(zipInfo{nil, child}))
			k = search(a.files, prefix+child+"0") // '0' is the byte after '/'
		default:
			out = append(out, fs.FileInfoToDirEntry(zipInfo{e, child}))
			k++
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// Stat returns a description of a file or folder of the archive.
func (a *Archive) Stat(name string) (fs.FileInfo, error) {
	e, file, err := a.find("stat", name)
	if err != nil {
		return nil, err
	}
	if !file {
		return zipInfo{nil, path.Base(name)}, nil
	}
	return zipInfo{e, path.Base(name)}, nil
}

// zipInfo describes a file, or a folder if entry is nil.
type zipInfo struct {
	entry *entry
	name  string
}

func (i zipInfo) Name() string { return i.name }
func (i zipInfo) IsDir() bool  { return i.entry == nil }
func (i zipInfo) Sys() any     { return nil }

// Size implements fs.FileInfo.
func (i zipInfo) Size() int64 {
	if i.entry == nil {
		return 0
	}
	return i.entry.size
}

// Mode implements fs.FileInfo.
func (i zipInfo) Mode() fs.FileMode {
	switch {
	case i.entry == nil:
		return fs.ModeDir | 0o555
	case i.entry.special:
		return fs.ModeIrregular | 0o444
	}
	return 0o444
}

// ModTime implements fs.FileInfo: the time of MS-DOS, as UTC.
func (i zipInfo) ModTime() time.Time {
	if i.entry == nil {
		return time.Time{}
	}
	d := i.entry.modified
	return time.Date(int(d>>25)+1980, time.Month(d>>21&15), int(d>>16&31), int(d>>11&31), int(d>>5&63), int(d&31)*2, 0, time.UTC)
}
