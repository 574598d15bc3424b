package cpu

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/mapped"
)

// Sizes of blocks.
const (
	// vectorBytes is the size of the widest vector register. A block has as many bytes after its
	// end: a masked load or store whose masked lanes lie on a page that is not there makes the
	// processor look up the page each time. A step of a 16-32-4 network took 7.4 µs instead of 4.7
	// on Zen 5.
	vectorBytes = 64
	// returnSize is the least bytes of a block of Go memory that is returned to the system as soon
	// as it is freed.
	returnSize = 1 << 20
)

// memory is one block: mapped outside the Go heap, or Go memory.
//
// Invariant: a mapped block stays mapped while work uses it, and after the device's Close until the
// owner's Free: an owner that has not freed it may have slices of it. So no address becomes invalid
// under anybody who follows the rules of arena.Memory, in whatever order device and owner close.
type memory struct {
	dev   *Device
	size  int64
	block *mapped.Block // nil: Go memory
	users atomic.Int64  // work that uses the block, plus freed once Free was called
	bytes []byte        // nil once freed; guarded by dev.mu
	state freeState     // guarded by dev.mu
}

// freed is more than the number of users at any time.
const freed = 1 << 32

// freeState says whether a block is freed, and by whom.
type freeState uint8

// The states of a block.
const (
	stateLive freeState = iota
	// Freed by the device's Close; the owner's Free has not returned that error yet.
	stateLost
	stateFreed // freed
)

// mapMemory returns a zeroed mapped block.
func (d *Device) mapMemory(bytes int64) (*memory, error) {
	block, err := mapped.New(bytes + vectorBytes)
	if err != nil {
		return nil, err
	}
	return &memory{dev: d, size: bytes, block: block, bytes: block.Bytes()[:bytes:bytes]}, nil
}

// goMemory returns a zeroed block of Go memory.
func (d *Device) goMemory(bytes int64) (*memory, error) {
	b := aligned(bytes+vectorBytes, mapped.Align)
	for i := 0; i < len(b); i += mapped.Align {
		b[i] = 0 // the process has its final size before training starts
	}
	return &memory{dev: d, size: bytes, bytes: b[:bytes:bytes]}, nil
}

// Size is the length in bytes.
func (m *memory) Size() int64 { return m.size }

// Bytes is the block, or nil once it was freed.
func (m *memory) Bytes() []byte {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	return m.bytes
}

// Free frees the block. If work is using it, that work's end does. A second call returns an error
// that wraps arena.ErrFreed. After the device's Close, which frees the block, the first call returns
// an error that wraps arena.ErrClosed.
func (m *memory) Free() error {
	was := m.release(stateFreed)
	if was == stateLive {
		return m.abandon()
	}
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if m.state == stateLost {
		m.state = stateFreed
		return errors.Join(fmt.Errorf("cpu: free of %d bytes: before it, the device was %w", m.size, arena.ErrClosed), m.abandon())
	}
	return fmt.Errorf("cpu: free of %d bytes: %w", m.size, arena.ErrFreed)
}

// release frees the block for its users unless it is free, sets its state to as, and returns the
// state before. Of a mapped block that the device's Close frees, it gives back the pages; abandon
// gives back the addresses.
func (m *memory) release(as freeState) freeState {
	d := m.dev
	d.mu.Lock()
	was := m.state
	if was == stateLive {
		m.state, m.bytes = as, nil
		delete(d.live, m)
		d.used -= m.size
	}
	d.mu.Unlock()
	switch {
	case was != stateLive:
	case m.block == nil && m.size >= returnSize:
		debug.FreeOSMemory()
	case m.block != nil && as == stateLost:
		m.block.Discard()
	}
	return was
}

// retain keeps the block mapped until done. It returns false once Free was called.
func (m *memory) retain() bool {
	for {
		n := m.users.Load()
		if n >= freed {
			return false
		}
		if m.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// done ends a use that retain began.
func (m *memory) done() { _ = m.unmapAfter(-1) } // the owner's Free has returned, so nobody gets an error

// abandon ends the owner's use: from now on retain fails.
func (m *memory) abandon() error { return m.unmapAfter(freed) }

// unmapAfter adds n to users, and unmaps the block if no user is left and the owner has freed it.
func (m *memory) unmapAfter(n int64) error {
	if m.users.Add(n) == freed && m.block != nil {
		return m.block.Free()
	}
	return nil
}

// retainAll retains all of these, or none and returns false.
func retainAll(all []*memory) bool {
	for i, m := range all {
		if !m.retain() {
			doneAll(all[:i])
			return false
		}
	}
	return true
}

// doneAll ends the use of all of these.
func doneAll(all []*memory) {
	for _, m := range all {
		m.done()
	}
}
