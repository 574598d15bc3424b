package arena

import (
	"fmt"
	"math"
	"slices"
)

// Check returns nil if plan is a correct placement for p, else a [*PlanError]. It proves that every
// buffer has an offset which is aligned and within the plan and the capacity, that no two live
// buffers share a byte, and that the peak is as stated. It shares no code with [Solve], and is
// cheap enough to run on every plan.
func Check(p Problem, plan Plan) error {
	if len(plan.Offsets) != len(p.Buffers) {
		return &PlanError{FaultLength, -1, -1, fmt.Sprintf("%d offsets for %d buffers", len(plan.Offsets), len(p.Buffers))}
	}
	if plan.Bytes < 0 {
		return &PlanError{FaultBytes, -1, -1, fmt.Sprintf("%d bytes in all", plan.Bytes)}
	}
	if p.Capacity != 0 && plan.Bytes > p.Capacity {
		return &PlanError{FaultCapacity, -1, -1, fmt.Sprintf("%d bytes, capacity %d", plan.Bytes, p.Capacity)}
	}
	var peak int64
	changes := make([]change, 0, 2*len(p.Buffers))
	for i := range p.Buffers {
		size, err := checkPlace(p, plan, i)
		if err != nil {
			return err
		}
		if b := p.Buffers[i]; size > 0 && b.Start < b.End {
			changes = append(changes, change{b.Start, true, int32(i), size}, change{b.End, false, int32(i), size})
			if b.Start <= plan.LiveAt && plan.LiveAt < b.End {
				peak += size
			}
		}
	}
	if peak != plan.Live {
		return &PlanError{FaultPeak, -1, -1, fmt.Sprintf("%d bytes live at instruction %d, not %d", peak, plan.LiveAt, plan.Live)}
	}
	return checkOverlap(p, plan, changes)
}

// change is the start or end of a live range.
type change struct {
	at    int32
	start bool
	index int32
	size  int64
}

// checkPlace checks the offset of buffer i and returns the bytes that it needs.
func checkPlace(p Problem, plan Plan, i int) (int64, error) {
	b, off := p.Buffers[i], plan.Offsets[i]
	fault := func(f Fault, format string, args ...any) (int64, error) {
		return 0, &PlanError{f, i, -1, fmt.Sprintf("buffer %d (%q): ", i, b.Name) + fmt.Sprintf(format, args...)}
	}
	align := b.Align
	if align == 0 {
		align = 256
	}
	if off < 0 {
		return fault(FaultOffset, "offset %d", off)
	}
	if align < 0 || off%align != 0 {
		return fault(FaultAlignment, "offset %d is not a multiple of %d", off, align)
	}
	if b.Size < 0 || b.Start < 0 || b.End < b.Start {
		return fault(FaultLength, "%d bytes during [%d, %d)", b.Size, b.Start, b.End)
	}
	size := b.Size
	if rest := size % align; rest != 0 {
		if size > math.MaxInt64-(align-rest) {
			return fault(FaultOverflow, "%d bytes", size)
		}
		size += align - rest
	}
	if off > math.MaxInt64-size {
		return fault(FaultOverflow, "offset %d and %d bytes", off, size)
	}
	if size > 0 && b.Start < b.End && off+size > plan.Bytes {
		return fault(FaultBytes, "offset %d and %d bytes, of %d in all", off, size, plan.Bytes)
	}
	return size, nil
}

// checkOverlap goes through the instructions in order and keeps the live buffers sorted by offset.
//
// Invariant: live buffers are disjoint. So a new one must only be compared with its two neighbours.
func checkOverlap(p Problem, plan Plan, changes []change) error {
	slices.SortFunc(changes, func(a, b change) int {
		if a.at != b.at {
			return int(a.at) - int(b.at)
		}
		if a.start != b.start { // a buffer that ends makes room for one that starts at the same instruction
			if b.start {
				return -1
			}
			return 1
		}
		return int(a.index) - int(b.index)
	})
	var live []change
	var sum int64
	below := func(c change, off int64) int {
		switch o := plan.Offsets[c.index]; {
		case o < off:
			return -1
		case o > off:
			return 1
		}
		return 0
	}
	for _, c := range changes {
		off := plan.Offsets[c.index]
		at, same := slices.BinarySearchFunc(live, off, below)
		if !c.start {
			live = slices.Delete(live, at, at+1)
			sum -= c.size
			continue
		}
		other := -1
		switch {
		case same, at < len(live) && plan.Offsets[live[at].index] < off+c.size:
			other = int(live[at].index)
		case at > 0 && plan.Offsets[live[at-1].index]+live[at-1].size > off:
			other = int(live[at-1].index)
		}
		if other >= 0 {
			return &PlanError{FaultOverlap, int(c.index), other, fmt.Sprintf("buffers %d (%q) and %d (%q) share bytes at instruction %d",
				c.index, p.Buffers[c.index].Name, other, p.Buffers[other].Name, c.at)}
		}
		live = slices.Insert(live, at, c)
		if sum += c.size; sum > plan.Live {
			return &PlanError{FaultPeak, int(c.index), -1, fmt.Sprintf("%d bytes live at instruction %d, more than %d", sum, c.at, plan.Live)}
		}
	}
	return nil
}
