package arena

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Arena is one block of device memory, divided as a layout says. It is allocated by New and by nobody later.
//
// In each region the parts of the layout come first and stay. What is reserved beyond them is given out by Take, one range
// after another, and taken back all at once by Reset. A handle to a range knows the step, that is the number of
// resets, from which it comes, and fails in any other.
//
// All methods may be called from several goroutines at once.
type Arena struct {
	device  Device
	memory  Memory
	host    []byte       // the memory as the host sees it, nil where it cannot
	regions []RegionInfo // never changed
	stage   stage

	mu     sync.RWMutex
	use    []usage // by region
	inUse  int64   // bytes, of all regions
	peak   int64   // the most that inUse has been
	closed bool
}

// usage is what a region holds now.
type usage struct {
	fixed int64  // bytes of the layout's parts
	used  int64  // bytes of parts and takes, a multiple of Align
	peak  int64  // the most that used has been
	step  uint64 // resets + 1
	takes []Part // since the last reset; their Owner is ""
}

// New allocates one block of l.Total() bytes on dev, with a single call of Alloc. A limit in bytes other than 0 that
// is below this total is a [CapacityError], before dev is asked anything; what dev refuses is returned wrapped.
// Where the host cannot see device memory, New also makes a stream and a small pinned buffer, for [Handle.Read] and
// [Handle.Write]. l may change or go afterwards; dev must stay open until Close.
func New(dev Device, l *Layout, limit int64) (*Arena, error) {
	if dev == nil || l == nil {
		return nil, fmt.Errorf("%w arena: it needs a device and a layout", ErrInvalid)
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
		return nil, fmt.Errorf("%w layout: its regions have no bytes", ErrInvalid)
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
	a := &Arena{device: dev, memory: memory, host: memory.Bytes(), regions: regions, use: make([]usage, len(regions))}
	if memory.Size() < total || a.host != nil && int64(len(a.host)) < total {
		return nil, errors.Join(fmt.Errorf("%w device %s: a block of %d bytes where %d were asked for",
			ErrInvalid, dev.Name(), memory.Size(), total), memory.Free())
	}
	if a.host == nil {
		if err := a.stage.open(dev, total); err != nil {
			return nil, errors.Join(fmt.Errorf("arena on %s: %w", dev.Name(), err), memory.Free())
		}
	}
	for r := range a.use {
		u := &a.use[r]
		u.step = 1
		if n := len(regions[r].Parts); n > 0 {
			last := regions[r].Parts[n-1]
			u.fixed = Round(last.Offset + last.Size)
		}
		u.used, u.peak = u.fixed, u.fixed
		u.takes = make([]Part, 0, 16)
		a.inUse += u.fixed
	}
	a.peak = a.inUse
	return a, nil
}

// Memory returns the block, for binding programs to it. It is the arena's: nobody else frees it.
func (a *Arena) Memory() Memory {
	if a == nil {
		return nil
	}
	return a.memory
}

// Base returns where region r starts, in bytes from the start of the block. A region that does not exist starts at -1.
func (a *Arena) Base(r Region) int64 {
	if a.known(r) != nil {
		return -1
	}
	return a.regions[r].Offset
}

// Take gives out the next bytes of region r, from a multiple of Align on. It fails with a [CapacityError] where
// they do not fit. The bytes hold whatever was there before.
func (a *Arena) Take(r Region, name string, bytes int64) (Handle, error) {
	if err := a.known(r); err != nil {
		return Handle{}, err
	}
	if bytes < 0 {
		return Handle{}, fmt.Errorf("%w size: %d bytes for %q in region %q", ErrInvalid, bytes, name, a.regions[r].Name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return Handle{}, a.errClosed()
	}
	u := &a.use[r]
	free := a.regions[r].Size - u.used
	if bytes > free { // free is a multiple of Align: what fits still does so rounded
		e := &CapacityError{Name: fmt.Sprintf("%q in region %q", name, a.regions[r].Name), Need: bytes, Have: free, At: -1}
		e.Largest = largest(slices.Concat(a.regions[r].Parts, u.takes))
		return Handle{}, e
	}
	h := Handle{arena: a, name: name, step: u.step, ref: Ref{Region: r, Offset: u.used, Size: bytes}}
	if bytes > 0 {
		u.takes = append(u.takes, Part{Name: name, Offset: u.used, Size: bytes})
	}
	u.used += Round(bytes)
	u.peak = max(u.peak, u.used)
	a.inUse += Round(bytes)
	a.peak = max(a.peak, a.inUse)
	return h, nil
}

// Handle returns a handle to a place that a layout or a plan gave out. It is valid until the next reset of its region.
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
	return Handle{arena: a, name: name, step: a.use[ref.Region].step, ref: ref}, nil
}

// Reset takes back all that Take gave out in region r and begins its next step: every handle into the region is
// stale from now on, those to parts of the layout as well. It waits for reads and writes through handles, not for
// work on streams, and leaves the bytes as they are.
func (a *Arena) Reset(r Region) error {
	if err := a.known(r); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	u := &a.use[r]
	a.inUse -= u.used - u.fixed
	u.used = u.fixed
	u.takes = u.takes[:0]
	u.step++
	return nil
}

// Close frees the block. Handles then fail with ErrClosed. Streams must have finished with the memory. A second
// call does nothing. Where the device was closed before, which freed the block, the error says so and wraps ErrClosed.
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
	a.inUse = 0
	for r := range a.use {
		a.use[r].used = 0
		a.use[r].takes = nil
	}
	a.host = nil
	if err := errors.Join(a.stage.close(), a.memory.Free()); err != nil {
		return fmt.Errorf("close arena on %s: %w", a.device.Name(), err)
	}
	return nil
}

// known returns an error where r is no region of a.
func (a *Arena) known(r Region) error {
	if a == nil || a.memory == nil {
		return fmt.Errorf("%w arena: it was not made: use New", ErrInvalid)
	}
	if r < 0 || int(r) >= len(a.regions) {
		return fmt.Errorf("%w region %d: the arena has %d", ErrInvalid, r, len(a.regions))
	}
	return nil
}

func (a *Arena) errClosed() error { return fmt.Errorf("arena on %s: %w", a.device.Name(), ErrClosed) }

// largestParts returns the largest parts of all regions.
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
