package dataloader

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// Classes of errors, for errors.Is.
var (
	// ErrEmpty: the dataset has no samples.
	ErrEmpty = errors.New("dataset has no samples")
	// ErrShort: the dataset has fewer samples than one batch, and the tail is dropped: no batch is
	// left.
	ErrShort = errors.New("dataset is shorter than one batch")
	// ErrField: the name, type, shape or data of a field is wrong. The error is a *FieldError.
	ErrField = errors.New("bad field")
	// ErrOption: an option or argument is outside its range. It is [arena.ErrOption].
	ErrOption = arena.ErrOption
	// ErrSlot: a slot is too small or has another number of fields than the dataset, or Release was
	// called for a slot that the caller does not hold.
	ErrSlot = errors.New("bad slot")
	// ErrHeld: the caller holds every slot, so that no batch can be filled: release one before
	// Next.
	ErrHeld = errors.New("all slots are held: release one first")
	// ErrBusy: another call uses the loader or run. It is [arena.ErrBusy].
	ErrBusy = arena.ErrBusy
	// ErrClosed: the loader or run was closed. It is [arena.ErrClosed].
	ErrClosed = arena.ErrClosed
	// ErrFormat: a file violates its format. The error is a *FormatError.
	ErrFormat = errors.New("bad format")
	// ErrStuck: a Fetch or Sync does not return. The error is a *StuckError.
	ErrStuck = errors.New("worker does not return")
	// ErrChanged: the length or the fields of a dataset changed while it was in use. The error is a
	// *ChangedError.
	ErrChanged = errors.New("dataset changed")
	// ErrPanic: a dataset or Waiter panicked. The error is a *PanicError.
	ErrPanic = errors.New("panic")
)

// FieldError reports a mistake in one field. It unwraps to ErrField.
type FieldError struct {
	Index   int    // index of the field in the dataset
	Name    string // name of the field
	Problem string
}

// Error returns the field and the problem.
func (e *FieldError) Error() string {
	return fmt.Sprintf("field %d %q: %s", e.Index, e.Name, e.Problem)
}

// Unwrap returns ErrField.
func (e *FieldError) Unwrap() error { return ErrField }

// SampleError reports a failed Fetch. It unwraps to Err.
type SampleError struct {
	Worker int   // number of the worker, from 0
	Index  int   // index of the sample in the dataset
	Step   int   // number of its batch in the epoch, from 0
	Err    error // the error of Fetch, or a *PanicError
}

// Error returns the worker, the sample and the cause.
func (e *SampleError) Error() string {
	return fmt.Sprintf("worker %d: sample %d (step %d): %v", e.Worker, e.Index, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *SampleError) Unwrap() error { return e.Err }

// ChangedError reports a dataset that has changed since New. It unwraps to ErrChanged.
type ChangedError struct {
	Dataset  string // its Go type
	Was, Now int    // numbers of samples; equal if the fields changed
}

// Error returns the type of the dataset and the change.
func (e *ChangedError) Error() string {
	what := fmt.Sprintf("%d samples became %d", e.Was, e.Now)
	if e.Was == e.Now {
		what = "its fields changed"
	}
	return fmt.Sprintf("dataset of type %s: %s: it must not change while it is in use", e.Dataset, what)
}

// Unwrap returns ErrChanged.
func (e *ChangedError) Unwrap() error { return ErrChanged }

// SlotError reports a failed Sync of the Waiter of a slot. It unwraps to Err.
type SlotError struct {
	Slot int // index into the slots of the run
	Step int // number of the batch that was to be filled, from 0
	Err  error
}

// Error returns the slot, the step and the cause.
func (e *SlotError) Error() string {
	return fmt.Sprintf("slot %d before step %d: sync with its last reader: %v", e.Slot, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *SlotError) Unwrap() error { return e.Err }

// PanicError reports a panic in a dataset or Waiter. It unwraps to ErrPanic and, if the value of
// the panic is an error, to that.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the worker's stack at the panic
}

// Error returns the value of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns ErrPanic, and Value if it is an error.
func (e *PanicError) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}

// StuckCall is a call of a dataset or Waiter that has not returned.
type StuckCall struct {
	Worker int // number of the worker, from 0
	Index  int // index of the sample in Fetch, or -1
	Block  int // if Index is -1: the block in [Blocks].Load, or -1 for the Sync of a Waiter
}

// StuckError lists the calls that had not returned when Close stopped waiting. Until they return
// they may write to the slots: keep that memory allocated, do not rely on its contents, and call
// Close again later. It unwraps to ErrStuck.
type StuckError struct {
	Blocked []StuckCall // sorted by worker
}

// Error returns every blocked worker and its sample.
func (e *StuckError) Error() string {
	var b strings.Builder
	for i, c := range e.Blocked {
		if i > 0 {
			b.WriteString(", ")
		}
		switch {
		case c.Index >= 0:
			fmt.Fprintf(&b, "worker %d is in Fetch of sample %d", c.Worker, c.Index)
		case c.Block >= 0:
			fmt.Fprintf(&b, "worker %d is in Load of block %d", c.Worker, c.Block)
		default:
			fmt.Fprintf(&b, "worker %d is in Sync of a slot's Waiter", c.Worker)
		}
	}
	if len(e.Blocked) == 0 {
		return "a worker has not returned yet: close again"
	}
	return b.String() + ": it ignores its context and may still write to the slots: close again after it returns"
}

// Unwrap returns ErrStuck.
func (e *StuckError) Unwrap() error { return ErrStuck }

// FormatError reports the first place where a file violates its format, or a file of a data set
// that is missing (Err is fs.ErrNotExist) or not regular (fs.ErrInvalid). It unwraps to ErrFormat
// and to Err.
type FormatError struct {
	File   string // path of the file, "" for a reader
	Offset int64  // bytes from the start of the (decompressed) file
	What   string // part of the format, such as "rank"
	Want   string // expected value
	Got    string // value in the file
	Err    error  // the cause, or nil
}

// Error returns the file, the place, and the expected and actual values.
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

// Unwrap returns ErrFormat and, if it is not nil, Err.
func (e *FormatError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrFormat, e.Err}
	}
	return []error{ErrFormat}
}

// missingFile returns the error for a file of a data set that does not exist.
func missingFile(path, want string) error {
	return &FormatError{File: path, What: "file", Want: want, Got: "none", Err: fs.ErrNotExist}
}
