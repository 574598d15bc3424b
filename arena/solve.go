package arena

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Buffer needs bytes during its live range, the instructions Start to End-1.
type Buffer struct {
	Name  string
	Owner string // the layer it belongs to, "" for none
	Size  int64  // bytes; a plan reserves Size rounded up to the field Align
	Align int64  // bytes, a power of two; 0 means the constant Align
	Start int32  // first instruction of the live range
	End   int32  // instruction after the last one of the live range; End = Start: the buffer needs no bytes
}

// align returns the alignment in bytes, with the default.
func (b Buffer) align() int64 {
	if b.Align == 0 {
		return Align
	}
	return b.Align
}

// Reserved returns the bytes that a plan reserves for the buffer: Size rounded up to the alignment.
func (b Buffer) Reserved() int64 { return alignUp(b.Size, b.align()) }

// Problem lists buffers to place in one range of memory.
type Problem struct {
	Buffers  []Buffer
	Capacity int64 // bytes; 0 means no limit
	// Effort limits the work after the simple orders, if these do not reach the bound. It counts
	// inner-loop steps, not time, so that a problem has the same plan on every machine. 0 means 40
	// million steps, about 200 ms on a current machine; negative means no such work.
	Effort int64
	// Enough is a size below which smaller plans are worth nothing, in bytes: the search ends with
	// the first plan of at most this size. 0 means that a smaller plan is always better.
	Enough int64
}

// Plan gives each buffer of a problem an offset.
type Plan struct {
	Offsets []int64 // by buffer, in bytes; 0 for a buffer that needs no bytes
	Bytes   int64   // size of the range that holds all buffers
	Live    int64   // peak: the most bytes that are live at one instruction; no plan needs fewer
	LiveAt  int32   // first instruction with that many live bytes
	Method  string  // the method that found the plan, for people
	Optimal bool    // it is proved that no plan needs fewer bytes
}

// defaultEffort takes about 200 ms of one core (AMD EPYC, 2.5 GHz class).
const defaultEffort = 40_000_000

// maxSearch is the largest number of buffers of one component (see solver) for which the search
// runs.
const maxSearch = 1500

// Solve places the buffers of p in as few bytes as it can, such that no two live buffers overlap.
// The result depends on p alone; Plan.Bytes does not depend on the order of the buffers.
//
// It first places the buffers one after another in several orders, each by several rules for
// choosing a gap. If no such plan is as small as [Bound], it improves these orders by local
// changes, then searches for a plan of that size, then for any smaller plan than the best one,
// until Problem.Effort is spent. A plan that needs more than p.Capacity is a [*CapacityError]; a
// bad buffer is an error that wraps ErrInvalid. If ctx is done, Solve returns its error.
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
	s := solver{ctx: ctx, effort: effort, target: max(plan.Live, p.Enough)}
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
		// Later components of up to this height do not enlarge the plan.
		if found.height > s.target {
			s.target, plan.Optimal = found.height, found.optimal
		}
		first = last
	}
	if p.Capacity > 0 && plan.Bytes > p.Capacity {
		return Plan{}, overCapacity(p, plan.Bytes, plan.LiveAt)
	}
	// A plan that was enough may not be the smallest.
	if p.Enough > plan.Live {
		plan.Optimal = plan.Bytes == plan.Live
	}
	return plan, nil
}

// Bound returns the peak: the largest sum, over all instructions, of the sizes of the buffers live
// there, each rounded up to its alignment; and the first such instruction. Invalid buffers count as
// 0 bytes; a sum that overflows is the largest int64.
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

// item is a buffer of the solver.
type item struct {
	start, end int32
	index      int32 // in Problem.Buffers
	size       int64 // bytes, a multiple of align
	align      int64
}

// occupies reports whether the item needs bytes at any time.
func (it item) occupies() bool { return it.size > 0 && it.start < it.end }

// compareItems orders items by their properties; the index only breaks ties of equal items.
func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(b.size, a.size),
		cmp.Compare(b.align, a.align), cmp.Compare(a.index, b.index))
}

// newItem validates b and rounds its size.
func newItem(b Buffer, index int) (item, error) {
	align := b.align()
	switch {
	case align < 0 || align&(align-1) != 0:
		return item{}, fmt.Errorf("%w alignment of buffer %q: %d is not a power of two", ErrInvalid, b.Name, b.Align)
	case b.Size < 0 || b.Size > math.MaxInt64-align:
		return item{}, fmt.Errorf("%w size of buffer %q: %d bytes", ErrInvalid, b.Name, b.Size)
	case b.Start < 0 || b.End < b.Start:
		return item{}, fmt.Errorf("%w lifetime of buffer %q: [%d, %d)", ErrInvalid, b.Name, b.Start, b.End)
	}
	return item{start: b.Start, end: b.End, index: int32(index), size: b.Reserved(), align: align}, nil
}

// itemize validates p and returns the buffers that need bytes, sorted by compareItems.
func itemize(p Problem) ([]item, error) {
	if p.Capacity < 0 {
		return nil, fmt.Errorf("%w capacity: %d bytes", ErrInvalid, p.Capacity)
	}
	if len(p.Buffers) > math.MaxInt32 {
		return nil, fmt.Errorf("%w number of buffers: %d", ErrInvalid, len(p.Buffers))
	}
	items := make([]item, 0, len(p.Buffers))
	room := int64(math.MaxInt64) // all buffers on top of each other must fit: then no later sum overflows
	for i, b := range p.Buffers {
		it, err := newItem(b, i)
		if err != nil {
			return nil, err
		}
		if !it.occupies() {
			continue
		}
		if it.align > room-it.size {
			return nil, fmt.Errorf("%w size of buffer %q: its %d bytes and the buffers before it exceed the largest offset",
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
		// All buffers that start at this instruction must be counted before it can be the peak.
		if live > bytes && (i+1 == len(items) || items[i+1].start != it.start) {
			bytes, at = live, it.start
		}
	}
	return bytes, at
}

// overCapacity returns a *CapacityError that lists the largest buffers live at instruction at.
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

// largest sorts parts by size and returns the five largest.
func largest(parts []Part) []Part {
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Size, a.Size) })
	return parts[:min(5, len(parts))]
}

// alignUp returns the next multiple of align, a power of two, that is not below n.
func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
