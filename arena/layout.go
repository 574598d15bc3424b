package arena

import (
	"fmt"
	"math"
	"slices"
)

// Part is a named range of a region.
type Part struct {
	Owner  string // the layer that it belongs to, "" for none
	Name   string // such as "weight"
	Offset int64  // bytes from the start of the region
	Size   int64  // bytes, without the padding up to the next multiple of Align
}

// label returns owner/name, or the name without an owner.
func (p Part) label() string {
	if p.Owner == "" {
		return p.Name
	}
	return p.Owner + "/" + p.Name
}

// RegionInfo describes a region of a layout.
type RegionInfo struct {
	Name   string
	Offset int64  // bytes from the start of the arena, a multiple of Align
	Size   int64  // reserved bytes, a multiple of Align
	Bytes  int64  // sum of the parts' sizes, without padding
	Parts  []Part // in order of offset
}

// Layout lists regions and the parts in them, before any memory exists. The zero value is empty.
// Its methods keep the first error instead of returning it, so that one check at the end is enough:
// see [Layout.Err]. A Layout is not safe for concurrent use.
//
//	| region 0          | region 1   | region 2                     |
//	| part | part |     | part       | reserved, without parts      |
//	0            multiples of Align                          Total()
type Layout struct {
	regions []RegionInfo
	ends    []int64 // by region: the end of its last part, a multiple of Align
	err     error
}

// Region appends an empty region and returns its index.
func (l *Layout) Region(name string) Region {
	l.regions = append(l.regions, RegionInfo{Name: name})
	l.ends = append(l.ends, 0)
	return Region(len(l.regions) - 1)
}

// Place appends a part of that many bytes to region r, at the next multiple of Align, and returns
// its place.
func (l *Layout) Place(r Region, owner, name string, bytes int64) Ref {
	p := Part{Owner: owner, Name: name, Size: bytes}
	if !l.valid(r, p.label(), bytes) {
		return Ref{Region: r}
	}
	p.Offset = l.ends[r]
	end, ok := addAligned(p.Offset, bytes)
	if !ok {
		l.fail(fmt.Errorf("%w size: %d bytes of %q end beyond the largest offset", ErrInvalid, bytes, p.label()))
		return Ref{Region: r}
	}
	q := &l.regions[r]
	q.Parts = append(q.Parts, p)
	q.Bytes += bytes
	l.ends[r] = end
	l.grow(q, end)
	return Ref{Region: r, Offset: p.Offset, Size: bytes}
}

// Reserve makes region r at least that many bytes long. Programs that share a region each reserve
// what they need: the region is as long as the longest. The layout does not say what the bytes
// after the last part hold: usually the buffers of a [Plan].
func (l *Layout) Reserve(r Region, bytes int64) {
	if !l.valid(r, "reservation", bytes) {
		return
	}
	end, ok := addAligned(0, bytes)
	if !ok {
		l.fail(fmt.Errorf("%w size: region %q of %d bytes ends beyond the largest offset", ErrInvalid, l.regions[r].Name, bytes))
		return
	}
	l.grow(&l.regions[r], end)
}

// Total returns the size of all regions in bytes: the size of an arena with this layout.
func (l *Layout) Total() int64 {
	var n int64
	for _, r := range l.regions {
		n += r.Size
	}
	return n
}

// Base returns the offset of region r from the start of the arena, in bytes. It moves when a region
// before it grows.
func (l *Layout) Base(r Region) int64 {
	if !l.valid(r, "base", 0) {
		return 0
	}
	var n int64
	for _, q := range l.regions[:r] {
		n += q.Size
	}
	return n
}

// Regions returns a copy of the regions, in order.
func (l *Layout) Regions() []RegionInfo {
	out := slices.Clone(l.regions)
	var at int64
	for i := range out {
		out[i].Offset = at
		out[i].Parts = slices.Clone(out[i].Parts)
		at += out[i].Size
	}
	return out
}

// Err returns the first error: a negative size, a region that the layout does not have, or a total
// beyond the largest int64. The error wraps ErrInvalid.
func (l *Layout) Err() error { return l.err }

// valid reports whether r is a region and bytes is not negative, and records an error otherwise.
func (l *Layout) valid(r Region, what string, bytes int64) bool {
	if r < 0 || int(r) >= len(l.regions) {
		l.fail(fmt.Errorf("%w region %d for %q: the layout has %d", ErrInvalid, r, what, len(l.regions)))
		return false
	}
	if bytes < 0 {
		l.fail(fmt.Errorf("%w size: %d bytes for %q in region %q", ErrInvalid, bytes, what, l.regions[r].Name))
		return false
	}
	return true
}

// grow makes q at least size bytes long, or records an error if the total would overflow an int64.
func (l *Layout) grow(q *RegionInfo, size int64) {
	if size <= q.Size {
		return
	}
	if size-q.Size > math.MaxInt64-l.Total() {
		l.fail(fmt.Errorf("%w size: the regions up to %q together exceed the largest offset", ErrInvalid, q.Name))
		return
	}
	q.Size = size
}

// fail records the first error.
func (l *Layout) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// addAligned returns a + b rounded up to Align. ok: the sum does not overflow. Neither is negative.
func addAligned(a, b int64) (sum int64, ok bool) {
	if b > math.MaxInt64-Align-a {
		return 0, false
	}
	return Round(a + b), true
}
