package checkpoint

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/internal/folderlock"
	"github.com/evenkeel/evenkeel/trainer"
)

// Sentinels of this package. An error wraps one of them, or trainer.ErrOption, or the error of the
// file system, of the trainer or of a cancelled context.
var (
	ErrLocked     = errors.New("the folder is in use")             // see LockedError
	ErrOccupied   = errors.New("the folder has checkpoints")       // see OccupiedError
	ErrUnreadable = errors.New("no checkpoint of it can be read")  // see UnreadableError
	ErrSave       = errors.New("the checkpoint cannot be written") // see SaveError
	ErrReadOnly   = errors.New("the folder is read-only")          // see ReadOnlyError
	ErrClosed     = fmt.Errorf("the folder is %w", trainer.ErrClosed)
)

// LockedError reports a folder that another process, or another Folder of this one, has open. It
// wraps ErrLocked.
type LockedError struct {
	Dir  string
	PID  int    // of the other process; 0 if it is not known
	Host string // that the other process runs on; "" if it is not known
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("checkpoints in %s: %v by %s: end it, or use another folder", e.Dir, ErrLocked, folderlock.Holder(e.PID, e.Host))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// OccupiedError reports that a run would write to a folder with checkpoints of another run, or of
// its own which it has not resumed. It wraps ErrOccupied.
type OccupiedError struct {
	Dir    string
	Newest string // name of the newest checkpoint
}

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("checkpoints in %s: %v, the newest is %s: call Resume to go on with it, or use another folder", e.Dir, ErrOccupied, e.Newest)
}

// Unwrap returns ErrOccupied.
func (e *OccupiedError) Unwrap() error { return ErrOccupied }

// UnreadableError reports a folder with checkpoints none of which can be read. It wraps
// ErrUnreadable, and the reason of each.
type UnreadableError struct {
	Dir    string
	Passed []Passed // newest first
}

func (e *UnreadableError) Error() string {
	text := fmt.Sprintf("checkpoints in %s: %v", e.Dir, ErrUnreadable)
	for _, p := range e.Passed {
		text += fmt.Sprintf("; %s: %v", p.Name, p.Err)
	}
	return text + ": move them away to begin anew"
}

// Unwrap returns ErrUnreadable and the reasons.
func (e *UnreadableError) Unwrap() []error {
	errs := []error{ErrUnreadable}
	for _, p := range e.Passed {
		errs = append(errs, p.Err)
	}
	return errs
}

// ReadOnlyError reports a folder that cannot be written to, as Options.ReadOnly is set, or as Open
// may not make its lock or remove what a dead process has left. It wraps ErrReadOnly, and the cause
// if there is one.
type ReadOnlyError struct {
	Dir string
	Err error // of the file system; nil if Options.ReadOnly is set
}

func (e *ReadOnlyError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("checkpoints in %s: %v, as Options.ReadOnly says: train on with another folder", e.Dir, ErrReadOnly)
	}
	return fmt.Sprintf("checkpoints in %s: %v: %v: set Options.ReadOnly to resume from it, and train on with another folder", e.Dir, ErrReadOnly, e.Err)
}

// Unwrap returns ErrReadOnly and the cause.
func (e *ReadOnlyError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrReadOnly}
	}
	return []error{ErrReadOnly, e.Err}
}

// SaveError reports a checkpoint that could not be written. It wraps ErrSave and the cause. The
// checkpoints before it are as they were.
type SaveError struct {
	Path string // of the checkpoint
	Step int64  // number of the step that it is of
	Err  error  // the cause
}

func (e *SaveError) Error() string { return fmt.Sprintf("%v: step %d: %v", ErrSave, e.Step, e.Err) }

// Unwrap returns ErrSave and the cause.
func (e *SaveError) Unwrap() []error { return []error{ErrSave, e.Err} }
