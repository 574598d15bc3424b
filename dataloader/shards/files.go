package shards

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"strconv"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// mostOpen is the number of files that are open at one time, except for those in use.
const mostOpen = 64

// files opens shards when they are read, and closes those that were not read for longest.
type files struct {
	fsys  fs.FS
	names []string

	mu     sync.Mutex
	all    []handle
	open   int
	clock  int64
	closed bool
}

// handle is a file, open or not. The files' mu guards it.
type handle struct {
	f       storage.File // nil: closed
	users   int
	used    int64         // time of the last use
	opening chan struct{} // closed when another goroutine has opened it, or failed
	known   bool          // size and version are set
	size    int64
	version string
}

func newFiles(fsys fs.FS, names []string) *files {
	return &files{fsys: fsys, names: names, all: make([]handle, len(names))}
}

// acquire returns file i, open. The caller releases it.
func (s *files) acquire(ctx context.Context, i int) (storage.File, error) {
	s.mu.Lock()
	h := &s.all[i]
	for h.f == nil && h.opening != nil {
		opening := h.opening
		s.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%s: %w", s.names[i], fs.ErrClosed)
	}
	if h.f == nil {
		if err := s.openFile(h, i); err != nil {
			return nil, err
		}
	}
	s.clock++
	h.used = s.clock
	h.users++
	return h.f, nil
}

// openFile opens file i, without mu, which is held before and after.
func (s *files) openFile(h *handle, i int) error {
	h.opening = make(chan struct{})
	old := s.spare()
	s.mu.Unlock()
	if old != nil {
		old.Close() // it was read only: nothing is lost
	}
	f, err := storage.Open(s.fsys, s.names[i])
	s.mu.Lock()
	close(h.opening)
	h.opening = nil
	switch {
	case err != nil:
		return err
	case s.closed:
		return errors.Join(fmt.Errorf("%s: %w", s.names[i], fs.ErrClosed), f.Close())
	case h.known && (f.Size() != h.size || storage.Version(f) != h.version):
		err := fmt.Errorf("%s: had %d bytes when it was indexed, now %d, or another version: %w", s.names[i], h.size, f.Size(), dataloader.ErrChanged)
		return errors.Join(err, f.Close())
	}
	h.f, h.known, h.size, h.version = f, true, f.Size(), storage.Version(f)
	s.open++
	return nil
}

// spare takes the file that was not used for longest out if too many are open. mu is held.
func (s *files) spare() storage.File {
	if s.open < mostOpen {
		return nil
	}
	var least *handle
	for i := range s.all {
		if h := &s.all[i]; h.f != nil && h.users == 0 && (least == nil || h.used < least.used) {
			least = h
		}
	}
	if least == nil {
		return nil
	}
	f := least.f
	least.f = nil
	s.open--
	return f
}

// release ends a use of file i.
func (s *files) release(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[i].users--
}

// close closes all files.
func (s *files) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for i := range s.all {
		if f := s.all[i].f; f != nil {
			s.all[i].f = nil
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// stamp tells whether a file is the one that was indexed.
type stamp struct {
	size    int64
	time    int64  // of the last change, in ns since 1970; 0 if it is not known or wanted
	version string // such as an ETag
	head    uint32 // CRC-32C of the first bytes
}

// headBytes is the number of bytes under stamp.head.
const headBytes = 4096

// stampOf returns the stamp of file i, which f is, with its time if that is wanted.
func (s *files) stampOf(ctx context.Context, i int, f storage.File, withTime bool) (stamp, error) {
	st := stamp{size: f.Size(), version: storage.Version(f)}
	if withTime {
		info, err := fs.Stat(s.fsys, s.names[i])
		if err != nil {
			return stamp{}, err
		}
		if !info.ModTime().IsZero() {
			st.time = info.ModTime().UnixNano()
		}
	}
	head := make([]byte, min(headBytes, f.Size()))
	if err := storage.ReadAt(ctx, f, head, 0); err != nil {
		return stamp{}, err
	}
	st.head = crc32.Checksum(head, castagnoli)
	return st, nil
}

// castagnoli is the polynomial of checksums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Fingerprint implements dataloader.Fingerprinter: it depends on the names, sizes, versions and first
// bytes of the shards, the extensions, the decoders that are Fingerprinters, and the number of samples.
func (d *Dataset) Fingerprint() uint64 {
	h := fnv.New64a()
	for _, f := range d.opt.Fields {
		h.Write([]byte(f.Name + "\x00" + f.Ext + "\x00"))
		if c, ok := f.Decoder.(dataloader.Fingerprinter); ok {
			h.Write(strconv.AppendUint(nil, c.Fingerprint(), 16))
		}
	}
	for i, s := range d.shards {
		h.Write([]byte(d.files.names[i] + "\x00" + s.stamp.version + "\x00"))
		for _, n := range []int64{s.stamp.size, int64(s.stamp.head), int64(s.samples)} {
			h.Write(strconv.AppendInt(nil, n, 10))
			h.Write([]byte{0})
		}
	}
	return h.Sum64()
}
