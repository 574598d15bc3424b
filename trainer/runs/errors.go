package runs

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/internal/folderlock"
	"github.com/evenkeel/evenkeel/trainer"
)

// FolderError reports a folder that cannot hold a run. It wraps trainer.ErrOption.
type FolderError struct {
	Dir      string
	Reason   string // the mistake, and what to do
	Recorded bool   // it has a run, which Options.Resume would go on with
}

func (e *FolderError) Error() string {
	return fmt.Sprintf("folder %q of a run: %s: %v", e.Dir, e.Reason, trainer.ErrOption)
}

// Unwrap returns trainer.ErrOption.
func (e *FolderError) Unwrap() error { return trainer.ErrOption }

// ErrLocked is the class of a LockedError.
var ErrLocked = errors.New("the folder is in use")

// LockedError reports a folder in which another process, or another Run of this one, records. It wraps
// ErrLocked.
type LockedError struct {
	Dir  string
	PID  int    // of the other process; 0 if it is not known
	Host string // that the other process runs on; "" if it is not known
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("folder %q of a run: %v by %s: end it, or use another folder", e.Dir, ErrLocked, folderlock.Holder(e.PID, e.Host))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// RowError reports a line of metrics.jsonl that cannot be read. It wraps trainer.ErrOption.
type RowError struct {
	File   string
	Line   int // counted from 1
	Reason string
}

func (e *RowError) Error() string {
	return fmt.Sprintf("%s, line %d: %s: remove this line and those after it to go on with the steps before it, or use another folder: %v",
		e.File, e.Line, e.Reason, trainer.ErrOption)
}

// Unwrap returns trainer.ErrOption.
func (e *RowError) Unwrap() error { return trainer.ErrOption }

// ErrControl is the class of errors of Stop and Checkpoint where the program has given the run no
// function for them.
var ErrControl = errors.New("this training has no such control")

// ErrNotReady is the class of errors of Stop and Checkpoint before Attach.
var ErrNotReady = errors.New("the training is not ready yet: try again when it has begun")
