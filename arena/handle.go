package arena

import (
	"errors"
	"fmt"
	"sync"
)

// Handle stands for a range of an arena during one step of its region. It is a small value: copy it freely. It keeps
// no memory alive, and after the step, or after Close, all its methods fail: it never reads bytes that are
// somebody else's by then. The zero Handle fails always.
type Handle struct {
	arena *Arena
	name  string
	step  uint64
	ref   Ref
}

// Name returns what the handle was made with.
func (h Handle) Name() string { return h.name }

// Ref returns the place, for calls that are to work on it. It stays the same when the handle is stale.
func (h Handle) Ref() Ref { return h.ref }

// Err returns nil, a [StaleError], or an error that wraps ErrClosed or ErrInvalid.
func (h Handle) Err() error {
	if h.arena == nil {
		return fmt.Errorf("%w handle: it was never taken", ErrInvalid)
	}
	h.arena.mu.RLock()
	defer h.arena.mu.RUnlock()
	return h.valid()
}

// Bytes returns the range as the host sees it, without a copy. The slice itself cannot fail when the step is over:
// do not keep it longer. Where the host cannot see device memory it is an error: use Read and Write.
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
		return nil, fmt.Errorf("%w use of handle %q: the host cannot see the memory of %s: use Read and Write",
			ErrInvalid, h.name, h.arena.device.Name())
	}
	return b, nil
}

// Read copies the whole range to dst, which has its size, on any device. Work on streams that writes to the range
// must be done.
func (h Handle) Read(dst []byte) error { return h.move(dst, false) }

// Write copies src, which has the size of the range, to it, on any device. Work on streams that uses the range must
// be done.
func (h Handle) Write(src []byte) error { return h.move(src, true) }

// move copies between b and the range while the arena can be neither reset nor closed.
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
	if mine := a.bytes(h.ref); mine != nil {
		if write {
			b, mine = mine, b
		}
		copy(b, mine)
		return nil
	}
	at := Span{Memory: a.memory, Offset: a.regions[h.ref.Region].Offset + h.ref.Offset, Size: h.ref.Size}
	if err := a.stage.move(b, at, write); err != nil {
		return fmt.Errorf("copy of %q: %w", h.name, err)
	}
	return nil
}

// valid is Err under the arena's lock.
func (h Handle) valid() error {
	if h.arena.closed {
		return fmt.Errorf("handle %q: %w", h.name, h.arena.errClosed())
	}
	if h.arena.host != nil && h.arena.memory.Bytes() == nil {
		return fmt.Errorf("handle %q: the device %s was %w before the arena", h.name, h.arena.device.Name(), ErrClosed)
	}
	if now := h.arena.use[h.ref.Region].step; now != h.step {
		return &StaleError{Name: h.name, Region: h.arena.regions[h.ref.Region].Name, Taken: h.step, Now: now}
	}
	return nil
}

// bytes returns what the host sees of a range, nil where it cannot.
func (a *Arena) bytes(ref Ref) []byte {
	if a.host == nil {
		return nil
	}
	from := a.regions[ref.Region].Offset + ref.Offset
	return a.host[from : from+ref.Size : from+ref.Size]
}

// stageBytes is the size of a stage: large enough that the copy dwarfs its start, small beside any model.
const stageBytes = 256 << 10

// StageBytes returns how much host memory New pins for Handle.Read and Handle.Write, beside a block of total bytes on a device whose
// memory the host cannot see.
func StageBytes(total int64) int64 { return min(stageBytes, total) }

// stage carries bytes between Go memory and device memory that the host cannot see, piece by piece: asynchronous copies
// may use pinned memory only.
type stage struct {
	mu     sync.Mutex
	pinned Memory
	stream Stream
}

func (s *stage) open(dev Device, bytes int64) (err error) {
	if s.pinned, err = dev.Pin(StageBytes(bytes)); err != nil {
		return fmt.Errorf("pinned buffer of %d bytes: %w", StageBytes(bytes), err)
	}
	if s.stream, err = dev.NewStream("stage"); err != nil {
		return errors.Join(fmt.Errorf("stream: %w", err), s.pinned.Free())
	}
	return nil
}

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

// move copies between b and device memory, which are equally long, and waits.
func (s *stage) move(b []byte, at Span, write bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	host := s.pinned.Bytes()
	if int64(len(host)) < s.pinned.Size() {
		return fmt.Errorf("the device was %w before the arena", ErrClosed)
	}
	for len(b) > 0 {
		n := min(int64(len(b)), s.pinned.Size())
		mine, there := Span{Memory: s.pinned, Size: n}, Span{Memory: at.Memory, Offset: at.Offset, Size: n}
		dst, src := mine, there
		if write {
			copy(host[:n], b)
			dst, src = there, mine
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
