package emu

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/mapped"
)

const (
	zone       = 256  // bytes of red zone on either side of an allocation
	zoneByte   = 0xC5 // what red zones hold
	poisonByte = 0xFF // what new memory holds: NaN as float32 and float64, -1 as an integer
	freedByte  = 0xFE // what freed pinned memory holds: NaN as well

	// returnSize is the least bytes of pinned memory that are returned to the system as soon as they
	// are freed, if nobody holds a slice of them.
	returnSize = 1 << 20
)

// memory is one block: zone, payload, zone. Pinned memory is Go memory, since the host sees it and
// may keep slices of it. Device memory is mapped outside the Go heap: only this package sees it, and
// only while it is not freed.
type memory struct {
	d      *Device
	id     int
	pinned bool
	size   int64
	mapped *mapped.Block // nil: Go memory
	block  []byte
	data   []byte // the payload, aligned to arena.Align
	freed  bool
	lost   bool // freed by the device's Close; the next Free returns that error
	queued int  // pieces of queued work that refer to it
	shadow shadow
}

// Alloc makes a block of device memory full of poison. The error wraps arena.ErrCapacity if too
// little is free.
func (d *Device) Alloc(bytes int64) (arena.Memory, error) {
	if err := d.enter("alloc"); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if free := d.opts.Memory - d.ledger.DeviceBytes; bytes > free {
		return nil, &arena.CapacityError{Name: "emu", Need: bytes, Have: free, At: -1}
	}
	m, err := d.newMemory(bytes, false)
	if err != nil {
		return nil, err
	}
	d.ledger.Allocs.open()
	d.ledger.DeviceBytes += bytes
	return m, nil
}

// Pin makes a block of pinned host memory full of poison.
func (d *Device) Pin(bytes int64) (arena.Memory, error) {
	if err := d.enter("pin"); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	m, err := d.newMemory(bytes, true)
	if err != nil {
		return nil, err
	}
	d.ledger.Pins.open()
	d.ledger.PinnedBytes += bytes
	return m, nil
}

func (d *Device) newMemory(bytes int64, pinned bool) (*memory, error) {
	if bytes <= 0 || bytes > 1<<46 {
		return nil, fmt.Errorf("emu: a block of %d bytes: %w", bytes, arena.ErrInvalid)
	}
	m := &memory{d: d, id: d.ledger.Allocs.Ever + d.ledger.Pins.Ever + 1, pinned: pinned, size: bytes,
		shadow: newShadow(bytes)}
	total := bytes + 2*zone + arena.Align
	var block []byte
	if pinned {
		block = make([]byte, total)
	} else {
		var err error
		if m.mapped, err = mapped.New(total); err != nil {
			return nil, fmt.Errorf("emu: %w", err)
		}
		block = m.mapped.Bytes()
	}
	from := zone + misalignment(block[zone:])
	m.block = block[from-zone : from+bytes+zone]
	m.data = m.block[zone : zone+bytes : zone+bytes]
	set(m.block, zoneByte)
	set(m.data, poisonByte)
	d.live.memories[m] = true
	return m, nil
}

// Size returns the length in bytes.
func (m *memory) Size() int64 { return m.size }

// Bytes returns the contents of pinned memory that was not freed, nil otherwise.
func (m *memory) Bytes() []byte {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if !m.pinned || m.freed {
		return nil
	}
	return m.data
}

// Free gives the memory back, and overwrites pinned memory so that later reads get poison. Errors wrap
// arena.ErrOverrun if a red zone was overwritten, ErrInUse if queued work refers to the memory,
// which then stays, arena.ErrClosed if the device's Close has freed it, and arena.ErrFreed at a
// second call.
func (m *memory) Free() error {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	switch {
	case m.lost:
		m.lost = false
		return fmt.Errorf("emu: free %v: before it, the device was %w", m, arena.ErrClosed)
	case m.freed:
		return fmt.Errorf("emu: %v: %w", m, arena.ErrFreed)
	case m.queued > 0:
		return fmt.Errorf("emu: free %v: %w: sync its streams first", m, ErrInUse)
	}
	return m.release()
}

func (m *memory) release() error {
	d := m.d
	m.freed = true
	delete(d.live.memories, m)
	if m.pinned {
		d.ledger.Pins.Live--
		d.ledger.PinnedBytes -= m.Size()
	} else {
		d.ledger.Allocs.Live--
		d.ledger.DeviceBytes -= m.Size()
	}
	err := m.zones()
	if m.mapped == nil {
		set(m.data, freedByte)
		m.block, m.data = nil, nil
		if m.size >= returnSize {
			debug.FreeOSMemory()
		}
		return err
	}
	m.block, m.data = nil, nil
	return errors.Join(err, m.mapped.Free())
}

// zones returns an error for the first overwritten byte of the red zones.
func (m *memory) zones() error {
	for _, from := range []int{0, len(m.block) - zone} {
		for i, b := range m.block[from : from+zone] {
			if b != zoneByte {
				return fmt.Errorf("emu: byte %d of %v, outside of its %d bytes, was overwritten: %w",
					from+i-zone, m, m.Size(), arena.ErrOverrun)
			}
		}
	}
	return nil
}

// String names the memory in errors.
func (m *memory) String() string {
	if m.pinned {
		return fmt.Sprintf("pinned memory %d", m.id)
	}
	return fmt.Sprintf("device memory %d", m.id)
}

// span is a checked arena.Span.
type span struct {
	m      *memory
	lo, hi int64
}

func (s span) bytes() []byte { return s.m.data[s.lo:s.hi] }

// String writes the span as "device memory 1 [0:256]".
func (s span) String() string { return fmt.Sprintf("%v [%d:%d]", s.m, s.lo, s.hi) }

// span checks that s lies within live memory of this device.
func (d *Device) span(s arena.Span) (span, error) {
	m, ok := s.Memory.(*memory)
	switch {
	case !ok || m.d != d:
		return span{}, fmt.Errorf("memory of type %T: %w: only device and pinned memory takes part in copies",
			s.Memory, ErrForeign)
	case m.freed:
		return span{}, fmt.Errorf("%v: %w", m, arena.ErrFreed)
	case s.Offset < 0 || s.Size < 0 || s.Offset > m.Size() || s.Size > m.Size()-s.Offset:
		return span{}, fmt.Errorf("%d bytes from %d on, of %v with %d bytes: %w", s.Size, s.Offset, m, m.Size(),
			arena.ErrInvalid)
	}
	return span{m, s.Offset, s.Offset + s.Size}, nil
}

func set(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Allocated returns the bytes and the number of blocks, of device memory and of pinned memory, that
// were not freed.
func (d *Device) Allocated() (bytes int64, blocks int) {
	if !d.opened() {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ledger.DeviceBytes + d.ledger.PinnedBytes, len(d.live.memories)
}
