package cpu

import (
	"fmt"
	"runtime/debug"

	"github.com/evenkeel/evenkeel/arena"
)

const (
	// memoryAlign is the alignment of every block in bytes: a page, so that blocks share none.
	memoryAlign = 4096
	// returnSize is from how many bytes on a freed block goes back to the system at once.
	returnSize = 1 << 20
)

// memory is one block of Go memory. A goroutine that still writes to it after Free harms nobody: the garbage collector
// takes the block only when no slice of it is left.
type memory struct {
	dev   *Device
	size  int64
	bytes []byte // nil once freed; guarded by dev.mu
	freed bool
}

// Size is the length in bytes.
func (m *memory) Size() int64 { return m.size }

// Bytes is the block, or nil once it was freed.
func (m *memory) Bytes() []byte {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	return m.bytes
}

// Free gives the block back. A second call is an error that wraps arena.ErrFreed.
func (m *memory) Free() error {
	d := m.dev
	d.mu.Lock()
	if m.freed {
		d.mu.Unlock()
		return fmt.Errorf("cpu: free of %d bytes: %w", m.size, arena.ErrFreed)
	}
	m.freed, m.bytes = true, nil
	delete(d.live, m)
	d.used -= m.size
	d.mu.Unlock()
	if m.size >= returnSize {
		debug.FreeOSMemory()
	}
	return nil
}
