//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"gorgonia.org/cu"
)

// memory is a block of device memory, or of pinned memory.
type memory struct {
	dev    *Device
	size   int64
	at     address
	host   unsafe.Pointer // nil: device memory
	freed  atomic.Bool    // by its owner
	closed atomic.Bool    // by the device's Close
}

// Alloc makes one block of device memory.
func (d *Device) Alloc(bytes int64) (arena.Memory, error) {
	return d.allocate("alloc", bytes, func(m *memory) error {
		p, err := cu.MemAlloc(max(bytes, 1)) // the driver makes none of 0
		m.at = address(p)
		return fromCu("cuMemAlloc", err)
	})
}

// Pin makes one block of pinned host memory.
func (d *Device) Pin(bytes int64) (arena.Memory, error) {
	return d.allocate("pin", bytes, func(m *memory) (err error) {
		m.host, err = pin(max(bytes, 1))
		m.at = pinnedAt(m.host)
		return err
	})
}

func (d *Device) allocate(what string, bytes int64, take func(m *memory) error) (arena.Memory, error) {
	if err := d.enter(what); err != nil {
		return nil, err
	}
	defer d.leave()
	if bytes < 0 {
		return nil, fmt.Errorf("cuda: %s: %d bytes", what, bytes)
	}
	m := &memory{dev: d, size: bytes}
	d.mu.Lock()
	defer d.mu.Unlock()
	limited := what == "alloc" && d.limit > 0
	if limited && bytes > d.limit-d.used {
		return nil, fmt.Errorf("cuda: %s: need %d bytes, have %d of %d: %w", what, bytes, d.limit-d.used, d.limit,
			arena.ErrCapacity)
	}
	if err := take(m); err != nil {
		return nil, d.refusal(what, bytes, d.note(err))
	}
	if m.host == nil {
		d.used += bytes
	}
	d.live[m] = struct{}{}
	return m, nil
}

// refusal adds the free memory to an error of too little memory. The driver keeps no state of the
// failed call.
func (d *Device) refusal(what string, bytes int64, err error) error {
	var e *DriverError
	if !errors.As(err, &e) || e.Code != codeOutOfMemory {
		return fmt.Errorf("cuda: %s of %d bytes: %w", what, bytes, err)
	}
	if free, total, info := cu.MemInfo(); info == nil && what == "alloc" {
		return fmt.Errorf("cuda: %s: need %d bytes, have %d of %d: %w", what, bytes, free, total, err)
	}
	return fmt.Errorf("cuda: %s: need %d bytes: %w", what, bytes, err)
}

// Size is the length in bytes.
func (m *memory) Size() int64 { return m.size }

// Bytes is pinned memory as the host sees it, until it is freed.
func (m *memory) Bytes() []byte {
	if m.host == nil || m.gone() {
		return nil
	}
	return hostBytes(m.host, m.size)
}

func (m *memory) gone() bool { return m.freed.Load() || m.closed.Load() }

// Free gives the block back. A second call is an error that wraps arena.ErrFreed; the first one
// after the device's Close, which has freed the block, is one that wraps arena.ErrClosed.
func (m *memory) Free() error {
	if !m.freed.CompareAndSwap(false, true) {
		return fmt.Errorf("cuda: free of %d bytes: %w", m.size, arena.ErrFreed)
	}
	if m.closed.Load() {
		return fmt.Errorf("cuda: free of %d bytes: before it, the device was %w", m.size, arena.ErrClosed)
	}
	return m.dev.discard("free", m)
}

func (m *memory) release() error {
	m.closed.Store(true)
	if m.host != nil {
		return fromCu("cuMemFreeHost", cu.MemFreeHost(m.host))
	}
	return fromCu("cuMemFree", cu.MemFree(cu.DevicePtr(m.at)))
}

// place is pinned memory from offset on.
func (m *memory) place(offset int64) unsafe.Pointer { return unsafe.Add(m.host, offset) }
