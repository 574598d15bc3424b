package arena

import (
	"fmt"
	"math"
	"slices"
)

// Part is a named range of a region.
type Part struct {
	Owner  string // whose it is: a layer, "" for nobody's in particular
	Name   string // what it is: "weight"
	Offset int64  // bytes from the start of the region
	Size   int64  // payload bytes; the next part starts at the next multiple of Align
}

// label returns owner/name.
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
	Bytes  int64  // payload of the parts; what Reserve added beyond them does not count
	Parts  []Part // in order of offset
}

// Layout is a list of regions and of the parts in them, made before any memory exists. The zero value is empty.
// A layout keeps its first error, so that a row of calls needs one check: see [Layout.Err].
// It is not for several goroutines at once.
//
//	| region 0          | region 1   | region 2                     |
//	| part | part |     | part       | reserved, for Take           |
//	0            multiples of Align                          Total()
type Layout struct {
	regions []RegionInfo
	ends    []int64 // by region: bytes that parts occupy, a multiple of Align
	err     error
}

// Region adds an empty region after the others.
func (l *Layout) Region(name string) Region {
	l.regions = append(l.regions, RegionInfo{Name: name})
	l.ends = append(l.ends, 0)
	return Region(len(l.regions) - 1)
}

// Place appends a part to region r, at the next multiple of Align, and returns its place.
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

// Reserve makes region r at least so many bytes long, whatever lies in it: several programs that share a region
// each reserve what they want, and it is as long as the longest. Bytes beyond the parts are for [Arena.Take],
// or for a plan of the caller's own.
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

// Total returns the bytes of all regions: what an arena of this layout allocates.
func (l *Layout) Total() int64 {
	var n int64
	for _, r := range l.regions {
		n += r.Size
	}
	return n
}

// Base returns where region r starts, in bytes from the start of the arena. It moves while regions before it grow.
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

// Regions returns the regions as they are now, in order. The caller owns the result.
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

// Err returns the first error of the calls so far: a negative size, a region of another layout, a size too large
// for an int64.
func (l *Layout) Err() error { return l.err }

// valid notes an error where r is no region or bytes is negative.
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

// grow makes q at least size bytes long, where the sum of all regions stays an int64.
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

func (l *Layout) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// addAligned returns a + b rounded up to Align, and whether that is an int64. Neither is negative.
func addAligned(a, b int64) (int64, bool) {
	if b > math.MaxInt64-Align-a {
		return 0, false
	}
	return Round(a + b), true
}
