package arena

import (
	"errors"
	"fmt"
	"sync"
)

// Handle is a checked reference to a range of an arena, for one step of its region. It is a small
// value that may be copied; it keeps no memory alive. Err, Bytes, Read and Write fail after
// the step, and after Arena.Close, so that a handle never reads bytes that were reused. The zero
// Handle always fails.
type Handle struct {
	arena *Arena
	name  string
	step  uint64
	ref   Ref
}

// Name returns the name given to Arena.Handle.
func (h Handle) Name() string { return h.name }

// Ref returns the place. It also works on a stale handle.
func (h Handle) Ref() Ref { return h.ref }

// Err returns nil if the handle is valid, else a [*StaleError] or an error that wraps ErrClosed
// or ErrInvalid.
func (h Handle) Err() error {
	if h.arena == nil {
		return fmt.Errorf("%w handle: use Arena.Handle", ErrInvalid)
	}
	h.arena.mu.RLock()
	defer h.arena.mu.RUnlock()
	return h.valid()
}

// Bytes returns the range itself, not a copy. Do not use the slice after the step: it does not
// notice that its bytes were reused, as the handle does. Never use it after Close, which gives the
// memory back to the system: that may end the process. If the host cannot see device memory, Bytes
// returns an error that wraps ErrInvalid: use Read and Write.
func (h Handle) Bytes() ([]byte, error) {
	if h.arena == nil {
		return nil, h.Err()
	}
	h.arena.mu.RLock()
	defer h.arena.mu.RUnlock()
	if err := h.valid(); err != nil {
		return nil, err
	}
	b := h.arena.bytes(h.ref)
	if b == nil {
		return nil, fmt.Errorf("%w use of handle %q: the host cannot see the memory of %s: call Read or Write",
			ErrInvalid, h.name, h.arena.device.Name())
	}
	return b, nil
}

// Read copies the range to dst, which must have the size of the range. It works on every device.
// Work on streams that writes to the range must be done.
func (h Handle) Read(dst []byte) error { return h.move(dst, false) }

// Write copies src, which must have the size of the range, to the range. It works on every device.
// Work on streams that uses the range must be done.
func (h Handle) Write(src []byte) error { return h.move(src, true) }

// move copies between b and the range. It holds the lock, so that the arena is neither reset nor
// closed meanwhile.
func (h Handle) move(b []byte, write bool) error {
	if h.arena == nil {
		return h.Err()
	}
	a := h.arena
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := h.valid(); err != nil {
		return err
	}
	if int64(len(b)) != h.ref.Size {
		return fmt.Errorf("%w size: %d bytes for handle %q, which has %d", ErrInvalid, len(b), h.name, h.ref.Size)
	}
	if host := a.bytes(h.ref); host != nil {
		if write {
			b, host = host, b
		}
		copy(b, host)
		return nil
	}
	at := Span{Memory: a.memory, Offset: a.regions[h.ref.Region].Offset + h.ref.Offset, Size: h.ref.Size}
	if err := a.stage.move(b, at, write); err != nil {
		return fmt.Errorf("copy of %q: %w", h.name, err)
	}
	return nil
}

// valid is Err for a caller that holds the arena's lock.
func (h Handle) valid() error {
	if h.arena.closed {
		return fmt.Errorf("handle %q: %w", h.name, h.arena.errClosed())
	}
	if h.arena.host != nil && h.arena.memory.Bytes() == nil {
		return fmt.Errorf("handle %q: the device %s was %w before the arena", h.name, h.arena.device.Name(), ErrClosed)
	}
	if now := h.arena.steps[h.ref.Region]; now != h.step {
		return &StaleError{Name: h.name, Region: h.arena.regions[h.ref.Region].Name, Step: h.step, Now: now}
	}
	return nil
}

// bytes returns the memory of a range, or nil if the host cannot see it.
func (a *Arena) bytes(ref Ref) []byte {
	if a.host == nil {
		return nil
	}
	from := a.regions[ref.Region].Offset + ref.Offset
	return a.host[from : from+ref.Size : from+ref.Size]
}

// stageBytes is the largest size of a stage: the time of such a copy is much longer than its
// launch, and the memory is small compared with a model.
const stageBytes = 256 << 10

// StageBytes returns the size of the pinned host buffer through which Handle.Read and Handle.Write
// copy, in bytes, for an arena of total bytes. New allocates this buffer if the host cannot see
// device memory.
func StageBytes(total int64) int64 { return min(stageBytes, total) }

// stage is a staging buffer: it copies between Go memory and device memory that the host cannot
// see, piece by piece. Asynchronous copies need pinned memory.
type stage struct {
	mu     sync.Mutex
	pinned Memory
	stream Stream
}

// open pins the buffer and opens the stream.
func (s *stage) open(dev Device, bytes int64) (err error) {
	if s.pinned, err = dev.Pin(StageBytes(bytes)); err != nil {
		return fmt.Errorf("pinned buffer of %d bytes: %w", StageBytes(bytes), err)
	}
	if s.stream, err = dev.NewStream("stage"); err != nil {
		return errors.Join(fmt.Errorf("stream: %w", err), s.pinned.Free())
	}
	return nil
}

// close releases both, if open was called.
func (s *stage) close() error {
	if s.pinned == nil {
		return nil
	}
	return errors.Join(s.stream.Close(), s.pinned.Free())
}

// size returns the pinned bytes.
func (s *stage) size() int64 {
	if s.pinned == nil {
		return 0
	}
	return s.pinned.Size()
}

// move copies between b and at, which have the same size, and waits for the copies.
func (s *stage) move(b []byte, at Span, write bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	host := s.pinned.Bytes()
	if int64(len(host)) < s.pinned.Size() {
		return fmt.Errorf("the device was %w before the arena", ErrClosed)
	}
	for len(b) > 0 {
		n := min(int64(len(b)), s.pinned.Size())
		pinned, device := Span{Memory: s.pinned, Size: n}, Span{Memory: at.Memory, Offset: at.Offset, Size: n}
		dst, src := pinned, device
		if write {
			copy(host[:n], b)
			dst, src = device, pinned
		}
		if err := s.stream.Copy(dst, src); err != nil {
			return err
		}
		if err := s.stream.Sync(); err != nil {
			return err
		}
		if !write {
			copy(b, host[:n])
		}
		b = b[n:]
		at.Offset += n
	}
	return nil
}
