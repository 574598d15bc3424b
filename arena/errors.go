package arena

import (
	"errors"
	"fmt"
)

// The classes of errors, for errors.Is. An error of this package wraps one of them, one of the
// shared ones below, the error of a cancelled context, or one of the device.
var (
	// ErrCapacity: the memory does not suffice. [Solve], and [New] if its limit is exceeded, return
	// a [*CapacityError]; a device may return another error that wraps ErrCapacity.
	ErrCapacity = errors.New("not enough memory")
	// ErrStale: the region of a handle was reset since. The error is a [*StaleError].
	ErrStale = errors.New("stale handle")
	// ErrFreed: the memory was freed before.
	ErrFreed = errors.New("freed")
	// ErrInvalid: a size, live range or offset is negative, too large or outside its region.
	ErrInvalid = errors.New("invalid")
	// ErrPlan: [Check] found a mistake in a plan. The error is a [*PlanError].
	ErrPlan = errors.New("wrong plan")
	// ErrOverrun: a [Sentry] found a write outside the buffers of an instruction. The error is an
	// [*OverrunError].
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

// CapacityError reports a request for more memory than there is. It wraps ErrCapacity.
type CapacityError struct {
	Name    string // what needs the memory: an arena, or the largest buffer at the peak
	Need    int64  // bytes
	Have    int64  // bytes
	At      int32  // the instruction that needs it, -1 if there is none
	Largest []Part // up to five of the parts that need it, largest first
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

// StaleError reports the use of a handle after a reset of its region. It wraps ErrStale.
type StaleError struct {
	Name   string // name of the handle
	Region string // name of the region
	Step   uint64 // the step of the handle, counted from 1 by resets of the region
	Now    uint64 // the current step
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale handle %q: it is of step %d of region %s, which is in step %d: read the value before the reset",
		e.Name, e.Step, e.Region, e.Now)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Fault is a kind of mistake in a plan.
type Fault uint8

// The kinds of mistakes that Check finds.
const (
	// FaultLength: the numbers of offsets and buffers differ, or a buffer has a negative Size, a
	// negative Start, or an End before its Start.
	FaultLength    Fault = iota + 1
	FaultOffset          // an offset is negative
	FaultAlignment       // an offset is not a multiple of the buffer's alignment
	FaultOverflow        // size or offset + size, with the size rounded up, is beyond the largest int64
	FaultBytes           // offset + size, rounded up, is beyond Plan.Bytes, or Plan.Bytes is negative
	FaultCapacity        // Plan.Bytes is beyond Problem.Capacity
	FaultOverlap         // two live buffers share bytes
	FaultPeak            // Plan.Live is not the peak, or not the live bytes at Plan.LiveAt
)

// String returns the name of the fault, such as "overlap".
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
	Buffer int // index of the buffer, -1 for a mistake of the whole plan
	Other  int // index of the buffer that it overlaps, -1 if there is none
	Detail string
}

func (e *PlanError) Error() string { return fmt.Sprintf("wrong plan: %s: %s", e.Fault, e.Detail) }

// Unwrap returns ErrPlan.
func (e *PlanError) Unwrap() error { return ErrPlan }

// OverrunError reports an instruction that wrote outside its buffers. It wraps ErrOverrun.
type OverrunError struct {
	Call        string // label of the instruction
	Instruction int32  // number of the instruction
	// Buffer is the live buffer past whose end the instruction wrote. If Dead, it is the last
	// buffer that had the overwritten bytes, or "" if there was none.
	Buffer string
	Offset int64 // first overwritten byte, from the start of Buffer, or of the memory if Buffer is ""
	Size   int64 // size of Buffer in bytes
	// Dead means that Buffer is no longer live, or is "": the instruction used a stale reference,
	// or wrote far out of bounds.
	Dead bool
}

func (e *OverrunError) Error() string {
	if e.Buffer == "" {
		return fmt.Sprintf("call %q (instruction %d) wrote to memory that no buffer has used: byte %d",
			e.Call, e.Instruction, e.Offset)
	}
	if e.Dead {
		return fmt.Sprintf("call %q (instruction %d) wrote to freed memory: byte %d of the former place of %q (%d bytes)",
			e.Call, e.Instruction, e.Offset, e.Buffer, e.Size)
	}
	return fmt.Sprintf("call %q (instruction %d) wrote past the end of %q: byte %d of %d",
		e.Call, e.Instruction, e.Buffer, e.Offset, e.Size)
}

// Unwrap returns ErrOverrun.
func (e *OverrunError) Unwrap() error { return ErrOverrun }
