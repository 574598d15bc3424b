//go:build mpi && unix && cgo

package mpi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/evenkeel/evenkeel/group"
)

const (
	noteBytes  = 4096
	maxOp      = 160 // bytes, as below
	maxCause   = 257
	maxBusy    = 64
	maxBlamed  = 64 // ranks
	notePrefix = "evenkeel-"
)

// page is the content of a note. Its rank writes it, the others read it. The fields of the last word
// are written before said, those of busy work before busy.
type page struct {
	entered   atomic.Uint64 // operations entered
	completed atomic.Uint64 // operations completed
	beat      atomic.Uint64 // grows while the rank waits in an operation
	busy      atomic.Int64  // calls of Busy that are not done
	doing     [maxBusy]byte // what the last of them does; texts end with a zero byte
	said      atomic.Uint32 // 0, or the number of the class of the last word
	closing   atomic.Uint32 // 1 when a rank of a broken group closes
	blamed    int32         // ranks, at most maxBlamed
	ranks     [maxBlamed]int32
	op        [maxOp]byte
	cause     [maxCause]byte
}

// setText writes a text, cut to the room, and a zero byte.
func setText(b []byte, s string) { b[copy(b[:len(b)-1], s)] = 0 }

// text reads a text.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.ToValidUTF8(string(b), "")
}

// classes are the classes of errors by the number in a last word.
var classes = []error{nil, group.ErrDied, group.ErrStuck, group.ErrAborted, group.ErrMismatch, group.ErrSignalled}

// note is a page of shared memory.
type note struct {
	path string
	mem  []byte
	page *page
}

// createNote makes the note of a rank, openNote opens that of another.
func createNote(path string) (*note, error) { return mapNote(path, os.O_RDWR|os.O_CREATE|os.O_EXCL) }
func openNote(path string) (*note, error)   { return mapNote(path, os.O_RDWR) }

func notePath(folder, id string, rank int) string {
	return filepath.Join(folder, fmt.Sprintf("%s%s-%d", notePrefix, id, rank))
}

func mapNote(path string, flag int) (*note, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mpi: note: %w", err)
	}
	defer f.Close()
	if flag&os.O_CREATE != 0 {
		if err := f.Truncate(noteBytes); err != nil {
			return nil, errors.Join(fmt.Errorf("mpi: note: %w", err), os.Remove(path))
		}
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, noteBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mpi: note %s: map: %w", path, err)
	}
	return &note{path: path, mem: mem, page: (*page)(unsafe.Pointer(&mem[0]))}, nil
}

// remove removes the file. The memory stays shared.
func (n *note) remove() error { return os.Remove(n.path) }

// say writes the last word of a rank whose group is broken.
func (p *page) say(e *group.RankError) {
	for i, class := range classes {
		if class != nil && class == e.Err {
			p.blamed = int32(copy32(p.ranks[:], e.Ranks))
			setText(p.op[:], e.Op)
			setText(p.cause[:], e.Cause)
			p.said.Store(uint32(i))
			return
		}
	}
}

func copy32(dst []int32, src []int) int {
	n := min(len(dst), len(src))
	for i, v := range src[:n] {
		dst[i] = int32(v)
	}
	return n
}

// word returns the last word, nil if there is none.
func (p *page) word() *group.RankError {
	i := int(p.said.Load())
	if i <= 0 || i >= len(classes) {
		return nil
	}
	e := &group.RankError{Rank: -1, Err: classes[i], Op: text(p.op[:]), Cause: text(p.cause[:])}
	for _, r := range p.ranks[:max(0, min(p.blamed, maxBlamed))] {
		e.Ranks = append(e.Ranks, int(r))
	}
	if len(e.Ranks) > 0 {
		e.Rank = e.Ranks[0]
	}
	return e
}

// peer is another rank of this host, as this rank sees it.
type peer struct {
	rank int
	pid  int
	page *page

	beat uint64    // at the last look
	seen time.Time // when beat last changed
}
