// Package layout places the regions of compiled programs in an arena. It also holds what else packages trainer and vm
// share: the report of a program, the memory that a device has for it, tensors as bytes, and errors.
package layout

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Place is a position in an arena.
type Place struct {
	Region arena.Region // of the arena
	Offset int64        // bytes from the start of the region
}

// Regions maps each region of a program to the place where it starts in an arena. Several regions of a program may share
// one of the arena. A trainer has two maps, one for each slot:
//
//	region of a program | map 0                     | map 1
//	parameters          | parameters + 0            | the same
//	slot                | slot 0 + 0                | slot 1 + 0
//	results             | results + 0               | results + size of results + size of guard
//	guard               | results + size of results | the same
type Regions [ir.Regions]Place

// Ref converts a program's reference into one to the arena.
func (r *Regions) Ref(ref arena.Ref) arena.Ref {
	start := r[ref.Region]
	return arena.Ref{Region: start.Region, Offset: start.Offset + ref.Offset, Size: ref.Size}
}

// Bases returns the offset from the start of the arena, in bytes, of each region of a program, as kernels.Binding wants
// it. It is -1 for regions in pinned host memory.
func (r *Regions) Bases(l *arena.Layout) []int64 {
	base := make([]int64, len(r))
	for i, start := range r {
		base[i] = l.Base(start.Region) + start.Offset
	}
	for _, i := range ir.Offloaded {
		base[i] = -1
	}
	return base
}

// AddRegion adds a region with these parts to l.
func AddRegion(l *arena.Layout, name string, parts []ir.Part) arena.Region {
	r := l.Region(name)
	AddParts(l, r, parts, "")
	return r
}

// AddParts appends parts to a region of l, in their order. It appends suffix to their names.
func AddParts(l *arena.Layout, r arena.Region, parts []ir.Part, suffix string) {
	for _, p := range parts {
		l.Place(r, p.Owner, p.Name+suffix, p.Spec.Bytes())
	}
}
