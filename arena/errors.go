package arena

import (
	"errors"
	"fmt"
)

// The classes of errors, for errors.Is. Every error of this package wraps one of them.
var (
	// ErrCapacity: the memory does not suffice. The error is a [CapacityError].
	ErrCapacity = errors.New("not enough memory")
	// ErrStale: the region of a handle was reset since. The error is a [StaleError].
	ErrStale = errors.New("stale handle")
	// ErrFreed: the memory was freed before.
	ErrFreed = errors.New("freed")
	// ErrInvalid: a size, live range or offset is negative, too large or outside its region.
	ErrInvalid = errors.New("invalid")
	// ErrPlan: [Check] found a mistake in a plan. The error is a [PlanError].
	ErrPlan = errors.New("wrong plan")
	// ErrOverrun: a [Sentry] found a write outside the buffers of a call. The error is an [OverrunError].
	ErrOverrun = errors.New("write outside of a buffer")
)

// Classes of errors that all packages share, under the same names.
var (
	// ErrClosed: something was used after its Close, or before it was opened.
	ErrClosed = errors.New("closed")
	// ErrBusy: another call uses the same thing.
	ErrBusy = errors.New("in use")
	// ErrOption: an option or argument is outside its range.
	ErrOption = errors.New("bad option")
)

// CapacityError says how much memory was asked for and how much there is. It wraps ErrCapacity.
type CapacityError struct {
	Name    string // what asked: an arena, a region, the largest buffer at the peak
	Need    int64  // bytes
	Have    int64  // bytes
	At      int32  // the instruction at which Need arises, -1 where there is none
	Largest []Part // the largest owners, largest first; may be empty
}

func (e *CapacityError) Error() string {
	b := fmt.Appendf(nil, "%s: need %d bytes", e.Name, e.Need)
	if e.At >= 0 {
		b = fmt.Appendf(b, " at instruction %d", e.At)
	}
	b = fmt.Appendf(b, ", have %d: %d missing", e.Have, e.Need-e.Have)
	for i, p := range e.Largest {
		sep := ", "
		if i == 0 {
			sep = "; largest: "
		}
		b = fmt.Appendf(b, "%s%s %d", sep, p.label(), p.Size)
	}
	return string(b)
}

// Unwrap returns ErrCapacity.
func (e *CapacityError) Unwrap() error { return ErrCapacity }

// StaleError says that a handle outlived its region's contents. It wraps ErrStale.
type StaleError struct {
	Name   string // of the handle
	Region string
	Taken  uint64 // the step, counted from 1 by resets of the region, that the handle comes from
	Now    uint64 // the present one
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale handle %q: taken in step %d of %s, now in step %d: copy what you want to keep before the reset",
		e.Name, e.Taken, e.Region, e.Now)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Fault is a kind of mistake in a plan.
type Fault uint8

// The kinds of mistake that Check tells apart.
const (
	FaultLength    Fault = iota + 1 // another number of offsets than buffers
	FaultOffset                     // a negative offset
	FaultAlignment                  // an offset that is not a multiple of the buffer's alignment
	FaultOverflow                   // an end beyond the largest int64
	FaultBytes                      // an end beyond Plan.Bytes, or a negative Plan.Bytes
	FaultCapacity                   // Plan.Bytes beyond Problem.Capacity
	FaultOverlap                    // two buffers that live at once share bytes
	FaultPeak                       // Plan.Live is not what lives at Plan.LiveAt
)

// String names the fault.
func (f Fault) String() string {
	names := [...]string{"", "length", "offset", "alignment", "overflow", "bytes", "capacity", "overlap", "peak"}
	if int(f) < len(names) && f > 0 {
		return names[f]
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// PlanError is a mistake in a plan. It wraps ErrPlan.
type PlanError struct {
	Fault  Fault
	Buffer int // index of the buffer at fault, -1 where it is the plan as a whole
	Other  int // index of the one it collides with, -1 where there is none
	Detail string
}

func (e *PlanError) Error() string { return fmt.Sprintf("wrong plan: %s: %s", e.Fault, e.Detail) }

// Unwrap returns ErrPlan.
func (e *PlanError) Unwrap() error { return ErrPlan }

// OverrunError says that a call wrote outside of its buffers. It wraps ErrOverrun.
type OverrunError struct {
	Call        string // label of the call after which it was found
	Instruction int32
	Buffer      string // the buffer whose guard, or whose place after its death, was written; "" where nobody was
	Offset      int64  // the first byte overwritten, counted from the buffer's first, or else from the memory's
	Size        int64  // the buffer's payload in bytes
	Dead        bool   // the buffer's life was over: someone wrote through a stale reference or far out of bounds
}

func (e *OverrunError) Error() string {
	if e.Buffer == "" {
		return fmt.Sprintf("call %q (instruction %d) wrote where nothing has lived yet: byte %d of the memory",
			e.Call, e.Instruction, e.Offset)
	}
	if e.Dead {
		return fmt.Sprintf("call %q (instruction %d) wrote into dead memory, at byte %d of where %q had its %d bytes",
			e.Call, e.Instruction, e.Offset, e.Buffer, e.Size)
	}
	return fmt.Sprintf("call %q (instruction %d) wrote past the end of %q: byte %d of %d",
		e.Call, e.Instruction, e.Buffer, e.Offset, e.Size)
}

// Unwrap returns ErrOverrun.
func (e *OverrunError) Unwrap() error { return ErrOverrun }
