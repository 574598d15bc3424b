package ir

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// ErrHome is wrapped when two programs disagree about a value that they share.
var ErrHome = errors.New("programs disagree")

// Part is one home: a named tensor in a region.
type Part struct {
	Owner, Name string
	Spec        kernels.Spec
	Ref         arena.Ref
	Nth         int // number of homes, in all regions, that were made before it
}

// Homes assigns the places of values that outlive a step. The same name in the same region is the
// same place in every program. The zero value is empty and ready to use. It is for one goroutine at
// a time.
type Homes struct {
	parts  [Regions][]Part
	index  [Regions]map[string]int
	end    [Regions]int64
	count  int    // homes in all regions
	placed []Part // all results of Place, in order, for Repeat
	// Sealed makes a new name an error: the layout is final.
	Sealed bool
}

// Place returns the home of name in region r, and makes one the first time. The spec of a home is
// fixed, except in Slot and Results, where a smaller batch uses the first rows of a larger one's
// home. The error wraps ErrHome where the spec differs, or where the home is new and h is sealed.
func (h *Homes) Place(r arena.Region, owner, name string, spec kernels.Spec) (arena.Ref, error) {
	ref, err := h.place(r, owner, name, spec)
	if err == nil {
		h.placed = append(h.placed, Part{Owner: owner, Name: name, Spec: spec, Ref: ref})
	}
	return ref, err
}

func (h *Homes) place(r arena.Region, owner, name string, spec kernels.Spec) (arena.Ref, error) {
	if i, ok := h.index[r][name]; ok {
		p := h.parts[r][i]
		switch {
		case p.Spec.Equal(spec):
			return p.Ref, nil
		case (r == Slot || r == Results) && p.Spec.Type == spec.Type && spec.Bytes() <= p.Spec.Bytes():
			ref := p.Ref
			ref.Size = spec.Bytes()
			return ref, nil
		}
		return arena.Ref{}, fmt.Errorf("%q is %v here and %v elsewhere: %w", name, spec, p.Spec, ErrHome)
	}
	if h.Sealed {
		return arena.Ref{}, fmt.Errorf("%q %v exists in this program only: %w", name, spec, ErrHome)
	}
	if h.index[r] == nil {
		h.index[r] = make(map[string]int)
	}
	ref := arena.Ref{Region: r, Offset: h.end[r], Size: spec.Bytes()}
	h.index[r][name] = len(h.parts[r])
	h.parts[r] = append(h.parts[r], Part{Owner: owner, Name: name, Spec: spec, Ref: ref, Nth: h.count})
	h.count++
	h.end[r] = arena.Round(ref.Offset + ref.Size)
	return ref, nil
}

// Asked returns all results of Place, in order and with repetitions.
func (h *Homes) Asked() []Part { return h.placed }

// Repeat calls Place for each of asked, which another Homes returned from Asked, so that a cached
// program fits h. If one would get another place, it undoes all and returns false.
func (h *Homes) Repeat(asked []Part) bool {
	// To undo: Place only appends to slices, so the old lengths in a copy of h restore them. Maps
	// are shared with the copy: the names that were added since are deleted.
	was := *h
	for _, p := range asked {
		if ref, err := h.Place(p.Ref.Region, p.Owner, p.Name, p.Spec); err == nil && ref == p.Ref {
			continue
		}
		for r := range h.parts {
			for _, more := range h.parts[r][len(was.parts[r]):] {
				delete(h.index[r], more.Name)
			}
		}
		*h = was
		return false
	}
	return true
}

// Adopt gives h copies of from's homes in regions. h must have none in these regions: they would be
// lost.
func (h *Homes) Adopt(from *Homes, regions ...arena.Region) {
	for _, r := range regions {
		h.parts[r], h.index[r], h.end[r] = slices.Clone(from.parts[r]), maps.Clone(from.index[r]), from.end[r]
	}
}

// Parts returns the homes in region r, in order of their places.
func (h *Homes) Parts(r arena.Region) []Part { return h.parts[r] }

// Find returns the home called name in region r.
func (h *Homes) Find(r arena.Region, name string) (Part, bool) {
	i, ok := h.index[r][name]
	if !ok {
		return Part{}, false
	}
	return h.parts[r][i], true
}

// FreshName returns name, with a number appended where region r has a home of that name.
func (h *Homes) FreshName(r arena.Region, name string) string {
	fresh := name
	for i := 2; ; i++ {
		if _, taken := h.Find(r, fresh); !taken {
			return fresh
		}
		fresh = fmt.Sprintf("%s#%d", name, i)
	}
}

// Bytes returns the reserved size of region r, a multiple of arena.Align.
func (h *Homes) Bytes(r arena.Region) int64 { return h.end[r] }
