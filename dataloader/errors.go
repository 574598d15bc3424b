package dataloader

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// Classes of errors, for errors.Is.
var (
	// ErrEmpty: the dataset has no samples.
	ErrEmpty = errors.New("dataset has no samples")
	// ErrShort: the dataset has fewer samples than one batch and the tail is dropped, so no batch would be left.
	ErrShort = errors.New("dataset is shorter than one batch")
	// ErrField: a field's name, type, shape or data is wrong. The error is a *FieldError.
	ErrField = errors.New("bad field")
	// ErrOption: an option or argument is outside its range. It is [arena.ErrOption].
	ErrOption = arena.ErrOption
	// ErrSlot: a slot is too small, has other fields than the dataset, or is released without being held.
	ErrSlot = errors.New("bad slot")
	// ErrHeld: every slot is held, so that no batch can ever be filled: release one before the next call to Next.
	ErrHeld = errors.New("all slots are held: release one first")
	// ErrBusy: another call uses the loader or run. It is [arena.ErrBusy].
	ErrBusy = arena.ErrBusy
	// ErrClosed: the loader or run was closed. It is [arena.ErrClosed].
	ErrClosed = arena.ErrClosed
	// ErrFormat: a file is not what its format demands. The error is a *FormatError.
	ErrFormat = errors.New("bad format")
	// ErrStuck: a reader does not come back. The error is a *StuckError.
	ErrStuck = errors.New("reader does not return")
	// ErrChanged: a dataset changed its length or its fields while it was in use. The error is a *ChangedError.
	ErrChanged = errors.New("dataset changed")
	// ErrPanic: a dataset's code panicked. The error is a *PanicError.
	ErrPanic = errors.New("panic")
)

// FieldError says what is wrong with one field. It unwraps to ErrField.
type FieldError struct {
	Index   int    // position among the dataset's fields
	Name    string // the field's name
	Problem string
}

// Error names the field and the problem.
func (e *FieldError) Error() string {
	return fmt.Sprintf("field %d %q: %s", e.Index, e.Name, e.Problem)
}

// Unwrap returns ErrField.
func (e *FieldError) Unwrap() error { return ErrField }

// SampleError is the failure of one sample. Err is what the dataset returned, or a *PanicError.
type SampleError struct {
	Worker int // which worker served the sample, 0-based
	Index  int // the sample's index in the dataset
	Step   int // the batch that the sample belongs to, 0-based
	Err    error
}

// Error names the worker, the sample and the cause.
func (e *SampleError) Error() string {
	return fmt.Sprintf("worker %d: sample %d (step %d): %v", e.Worker, e.Index, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *SampleError) Unwrap() error { return e.Err }

// ChangedError says that a dataset is not what it was when its loader was made. It unwraps to ErrChanged.
type ChangedError struct {
	Dataset  string // its Go type
	Was, Now int    // samples; the same where it is the fields that changed
}

// Error names the dataset and what changed.
func (e *ChangedError) Error() string {
	what := fmt.Sprintf("%d samples became %d", e.Was, e.Now)
	if e.Was == e.Now {
		what = "its fields became others"
	}
	return fmt.Sprintf("dataset of type %s: %s: it must not change while it is in use", e.Dataset, what)
}

// Unwrap returns ErrChanged.
func (e *ChangedError) Unwrap() error { return ErrChanged }

// SlotError is the failure of the event that guards a slot against being refilled too early.
type SlotError struct {
	Slot int // index into the slots of the run
	Step int // the batch that was to be filled, 0-based
	Err  error
}

// Error names the slot, the step and the cause.
func (e *SlotError) Error() string {
	return fmt.Sprintf("slot %d before step %d: wait for its last reader: %v", e.Slot, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *SlotError) Unwrap() error { return e.Err }

// PanicError is a panic in a dataset's or waiter's code, caught in a worker. It unwraps to ErrPanic and, where the
// panic's value is an error, to that.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the worker's stack at the panic
}

// Error gives the panic's text, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns ErrPanic and the panic's value if it is an error.
func (e *PanicError) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}

// Blocked is one call that has not returned.
type Blocked struct {
	Worker int
	Index  int // the sample being fetched, or -1 where a slot's event is awaited
}

// StuckError says which calls had not returned when Close gave up waiting for them. Until they do, they may still
// write to the slots: that memory must stay allocated, and nobody may rely on what it holds. Whoever owns the memory closes again
// later; a trainer keeps it until a Close succeeds. It unwraps to ErrStuck.
type StuckError struct {
	Blocked []Blocked // by worker
}

// Error names every sample that is being fetched.
func (e *StuckError) Error() string {
	var b strings.Builder
	for i, c := range e.Blocked {
		if i > 0 {
			b.WriteString(", ")
		}
		if c.Index < 0 {
			fmt.Fprintf(&b, "worker %d waits for a slot's last reader", c.Worker)
		} else {
			fmt.Fprintf(&b, "worker %d is in fetch of sample %d", c.Worker, c.Index)
		}
	}
	if len(e.Blocked) == 0 {
		return "a worker is slow to come back: try again"
	}
	return b.String() + ": it ignores its context and may still write to its batch's memory, which is kept: close again when it has returned"
}

// Unwrap returns ErrStuck.
func (e *StuckError) Unwrap() error { return ErrStuck }

// FormatError says where a file departs from its format. It unwraps to ErrFormat and to Err.
type FormatError struct {
	File   string // path, or "" for a reader
	Offset int64  // bytes from the start of the (decompressed) file
	What   string // the part of the format concerned
	Want   string
	Got    string
	Err    error // the cause, where there is one
}

// Error names file, place, and what was expected and found there.
func (e *FormatError) Error() string {
	file := e.File
	if file == "" {
		file = "input"
	}
	s := fmt.Sprintf("%s: %s at byte %d: want %s, got %s", file, e.What, e.Offset, e.Want, e.Got)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrFormat and the cause.
func (e *FormatError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrFormat, e.Err}
	}
	return []error{ErrFormat}
}
