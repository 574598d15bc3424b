package arena

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Buffer is something that needs bytes for a while.
type Buffer struct {
	Name  string
	Owner string // the layer it belongs to, "" for none
	Size  int64  // payload bytes; occupied are Size rounded up to Align
	Align int64  // bytes, a power of two; 0 means the constant Align
	Start int32  // the first instruction during which it is live
	End   int32  // the first instruction after that during which it is not; End = Start is never live
}

// align returns the alignment in bytes.
func (b Buffer) align() int64 {
	if b.Align == 0 {
		return Align
	}
	return b.Align
}

// Problem asks for places for buffers in one range of memory.
type Problem struct {
	Buffers  []Buffer
	Capacity int64 // bytes; 0 means no limit
	// Effort limits the search that follows where simple orders do not reach the bound, in inner-loop steps and not in
	// time, so that the same problem has the same plan everywhere. 0 means about 200 ms; negative means no search.
	Effort int64
}

// Plan says where the buffers of a problem go.
type Plan struct {
	Offsets []int64 // by buffer, in bytes; 0 for buffers that occupy nothing
	Bytes   int64   // bytes that all of them need
	Live    int64   // the most bytes that live at once: no plan needs fewer
	LiveAt  int32   // the first instruction at which that many live
	Method  string  // what found it, for people
	Optimal bool    // whether it is proved that no plan needs fewer bytes
}

// defaultEffort is worth about 200 ms of one core (AMD EPYC, 2.5 GHz class).
const defaultEffort = 40_000_000

// maxSearch is the number of buffers, live at connected times, up to which the search is tried.
const maxSearch = 1500

// Solve finds offsets for the buffers of p, such that none that live at once overlap, in as few bytes as it can.
// The result depends on p alone, and its Bytes not even on the order of the buffers.
//
// It tries a portfolio of orders and gap rules, and where these stay above the bound of [Bound], repairs of these orders and then a search
// for a plan that meets it. A plan beyond p.Capacity is a [CapacityError]. When ctx is done, Solve returns its error.
func Solve(ctx context.Context, p Problem) (Plan, error) {
	items, err := itemize(p)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Offsets: make([]int64, len(p.Buffers)), Method: "nothing to place", Optimal: true}
	plan.Live, plan.LiveAt = bound(items)
	if p.Capacity > 0 && plan.Live > p.Capacity {
		return Plan{}, overCapacity(p, plan.Live, plan.LiveAt)
	}
	effort := p.Effort
	if effort == 0 {
		effort = defaultEffort
	}
	s := solver{ctx: ctx, effort: effort, target: plan.Live}
	for first := 0; first < len(items); {
		last, end := first, int32(0)
		for last < len(items) && (last == first || items[last].start < end) {
			end = max(end, items[last].end)
			last++
		}
		found, err := s.solve(items[first:last])
		if err != nil {
			return Plan{}, err
		}
		for i, it := range items[first:last] {
			plan.Offsets[it.index] = found.offsets[i]
		}
		if found.height > plan.Bytes {
			plan.Bytes, plan.Method = found.height, found.method
		}
		// What is no higher than this costs nothing.
		if found.height > s.target {
			s.target, plan.Optimal = found.height, found.optimal
		}
		first = last
	}
	if p.Capacity > 0 && plan.Bytes > p.Capacity {
		return Plan{}, overCapacity(p, plan.Bytes, plan.LiveAt)
	}
	return plan, nil
}

// Bound returns the most bytes that live at once, alignment included, and the first instruction at which they do.
// Buffers that make no sense count as nothing; a sum beyond an int64 is the largest int64.
func Bound(p Problem) (bytes int64, at int32) {
	items := make([]item, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if it, err := newItem(b, i); err == nil && it.occupies() {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, compareItems)
	return bound(items)
}

// item is a buffer as the solver sees it.
type item struct {
	start, end int32
	index      int32 // in Problem.Buffers
	size       int64 // bytes, a multiple of align
	align      int64
}

func (it item) occupies() bool { return it.size > 0 && it.start < it.end }

// compareItems orders items so that only those that are alike in everything are ordered by index.
func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(b.size, a.size),
		cmp.Compare(b.align, a.align), cmp.Compare(a.index, b.index))
}

// newItem checks b and rounds its size.
func newItem(b Buffer, index int) (item, error) {
	align := b.align()
	switch {
	case align < 0 || align&(align-1) != 0:
		return item{}, fmt.Errorf("%w alignment of buffer %q: %d is no power of two", ErrInvalid, b.Name, b.Align)
	case b.Size < 0 || b.Size > math.MaxInt64-align:
		return item{}, fmt.Errorf("%w size of buffer %q: %d bytes", ErrInvalid, b.Name, b.Size)
	case b.Start < 0 || b.End < b.Start:
		return item{}, fmt.Errorf("%w lifetime of buffer %q: [%d, %d)", ErrInvalid, b.Name, b.Start, b.End)
	}
	return item{start: b.Start, end: b.End, index: int32(index), size: alignUp(b.Size, align), align: align}, nil
}

// itemize checks p and returns those of its buffers that occupy something, sorted.
func itemize(p Problem) ([]item, error) {
	if p.Capacity < 0 {
		return nil, fmt.Errorf("%w capacity: %d bytes", ErrInvalid, p.Capacity)
	}
	if len(p.Buffers) > math.MaxInt32 {
		return nil, fmt.Errorf("%w number of buffers: %d", ErrInvalid, len(p.Buffers))
	}
	items := make([]item, 0, len(p.Buffers))
	room := int64(math.MaxInt64) // for all of them on top of each other: then nothing later can overflow
	for i, b := range p.Buffers {
		it, err := newItem(b, i)
		if err != nil {
			return nil, err
		}
		if !it.occupies() {
			continue
		}
		if it.align > room-it.size {
			return nil, fmt.Errorf("%w size of buffer %q: with those before it, its %d bytes exceed the largest offset",
				ErrInvalid, b.Name, b.Size)
		}
		room -= it.size + it.align
		items = append(items, it)
	}
	slices.SortFunc(items, compareItems)
	return items, nil
}

// bound is Bound for sorted items.
func bound(items []item) (bytes int64, at int32) {
	ends := slices.Clone(items)
	slices.SortFunc(ends, func(a, b item) int { return cmp.Compare(a.end, b.end) })
	var live int64
	dead := 0
	for i, it := range items {
		for ; ends[dead].end <= it.start; dead++ {
			live -= ends[dead].size
		}
		if it.size > math.MaxInt64-live {
			return math.MaxInt64, it.start
		}
		live += it.size
		// The peak of an instruction is known once all that start there are counted.
		if live > bytes && (i+1 == len(items) || items[i+1].start != it.start) {
			bytes, at = live, it.start
		}
	}
	return bytes, at
}

// overCapacity names the largest buffers that live at instruction at.
func overCapacity(p Problem, need int64, at int32) error {
	e := &CapacityError{Name: "plan", Need: need, Have: p.Capacity, At: at}
	for _, b := range p.Buffers {
		if b.Start <= at && at < b.End && b.Size > 0 {
			e.Largest = append(e.Largest, Part{Owner: b.Owner, Name: b.Name, Size: b.Size})
		}
	}
	e.Largest = largest(e.Largest)
	if len(e.Largest) > 0 {
		e.Name = e.Largest[0].label()
	}
	return e
}

// largest sorts parts by size and returns the first five.
func largest(parts []Part) []Part {
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Size, a.Size) })
	return parts[:min(5, len(parts))]
}

// alignUp returns the next multiple of align, a power of two, that is not below n.
func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
