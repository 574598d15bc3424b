package arena

import (
	"errors"
	"fmt"
	"sync"
)

// Arena is one block of device memory, divided into the regions of a layout. Only New allocates.
//
// Each region has a step number, which Reset increases: here a step lasts from one Reset to the
// next. A handle belongs to one step of its region and fails in any other, so that a stale
// reference is an error instead of wrong data.
//
// An Arena is safe for concurrent use.
type Arena struct {
	device  Device
	memory  Memory
	host    []byte       // the memory as the host sees it, nil if the host cannot
	regions []RegionInfo // constant
	stage   stage

	mu     sync.RWMutex
	steps  []uint64 // by region: number of resets + 1
	closed bool
}

// New allocates one block of l.Total() bytes on dev, with one call of Alloc. limit is the number of
// bytes that it may allocate, 0 for any: a larger total is a [*CapacityError], returned before the
// first call of dev. Errors of dev are wrapped.
//
// If the host cannot see device memory, New also opens a stream and pins [StageBytes] of host
// memory, for [Handle.Read] and [Handle.Write]. New copies l. dev must stay open until Close.
func New(dev Device, l *Layout, limit int64) (*Arena, error) {
	if dev == nil || l == nil {
		return nil, fmt.Errorf("%w arena: New needs a device and a layout", ErrInvalid)
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	total := l.Total()
	regions := l.Regions()
	switch {
	case limit < 0:
		return nil, fmt.Errorf("%w limit: %d bytes", ErrInvalid, limit)
	case total == 0:
		return nil, fmt.Errorf("%w layout: all regions are empty", ErrInvalid)
	case limit > 0 && limit < total:
		return nil, &CapacityError{Name: "arena", Need: total, Have: limit, At: -1, Largest: largestParts(regions)}
	}
	info, infoErr := dev.Info()
	memory, err := dev.Alloc(total)
	if err != nil {
		if infoErr == nil {
			err = fmt.Errorf("%d bytes free of %d: %w", info.Free, info.Total, err)
		}
		return nil, fmt.Errorf("arena of %d bytes on %s: %w", total, dev.Name(), err)
	}
	a := &Arena{device: dev, memory: memory, host: memory.Bytes(), regions: regions, steps: make([]uint64, len(regions))}
	if memory.Size() < total || a.host != nil && int64(len(a.host)) < total {
		return nil, errors.Join(fmt.Errorf("%w device %s: it returned a block of %d bytes for a request of %d",
			ErrInvalid, dev.Name(), memory.Size(), total), memory.Free())
	}
	if a.host == nil {
		if err := a.stage.open(dev, total); err != nil {
			return nil, errors.Join(fmt.Errorf("arena on %s: %w", dev.Name(), err), memory.Free())
		}
	}
	for r := range a.steps {
		a.steps[r] = 1
	}
	return a, nil
}

// Memory returns the block. On a stream, the range of a [Ref] is the [Span]
// {a.Memory(), a.Base(ref.Region) + ref.Offset, ref.Size}. Do not call its Free: Close does.
func (a *Arena) Memory() Memory {
	if a == nil {
		return nil
	}
	return a.memory
}

// Base returns the offset of region r from the start of the block in bytes, or -1 if there is no
// such region.
func (a *Arena) Base(r Region) int64 {
	if a.known(r) != nil {
		return -1
	}
	return a.regions[r].Offset
}

// Handle returns a handle to the range ref. For a part, ref is what [Layout.Place] returned. If the
// range of a plan begins s bytes into region r, buffer i is Ref{r, s + plan.Offsets[i], its size}.
// name appears in errors. The handle is
// valid until the next reset of its region.
func (a *Arena) Handle(ref Ref, name string) (Handle, error) {
	if err := a.known(ref.Region); err != nil {
		return Handle{}, err
	}
	if size := a.regions[ref.Region].Size; ref.Offset < 0 || ref.Size < 0 || ref.Size > size || ref.Offset > size-ref.Size {
		return Handle{}, fmt.Errorf("%w place of %q: bytes %d to %d of region %q, which has %d", ErrInvalid,
			name, ref.Offset, ref.Offset+ref.Size, a.regions[ref.Region].Name, size)
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return Handle{}, a.errClosed()
	}
	return Handle{arena: a, name: name, step: a.steps[ref.Region], ref: ref}, nil
}

// Reset begins the next step of region r: all handles to ranges of the region become stale. It
// waits for reads and writes through handles, but not for work on streams. The bytes keep their
// values.
func (a *Arena) Reset(r Region) error {
	if err := a.known(r); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	a.steps[r]++
	return nil
}

// Close frees the block; all handles then fail with ErrClosed. Work on streams that uses the memory
// must be done. A second call does nothing. If the device was closed before, which freed the block,
// Close returns an error that wraps ErrClosed.
func (a *Arena) Close() error {
	if a == nil || a.memory == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.host = nil
	if err := errors.Join(a.stage.close(), a.memory.Free()); err != nil {
		return fmt.Errorf("close arena on %s: %w", a.device.Name(), err)
	}
	return nil
}

// known returns an error unless r is a region of a.
func (a *Arena) known(r Region) error {
	if a == nil || a.memory == nil {
		return fmt.Errorf("%w arena: use New", ErrInvalid)
	}
	if r < 0 || int(r) >= len(a.regions) {
		return fmt.Errorf("%w region %d: the arena has %d", ErrInvalid, r, len(a.regions))
	}
	return nil
}

// errClosed returns the error of a closed arena.
func (a *Arena) errClosed() error { return fmt.Errorf("arena on %s: %w", a.device.Name(), ErrClosed) }

// largestParts returns the five largest parts of all regions.
func largestParts(regions []RegionInfo) []Part {
	var parts []Part
	for _, r := range regions {
		for _, p := range r.Parts {
			p.Name = r.Name + " " + p.Name
			parts = append(parts, p)
		}
	}
	return largest(parts)
}
