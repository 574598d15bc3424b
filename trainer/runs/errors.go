package runs

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/trainer"
)

// FolderError reports a folder that cannot hold a run. It wraps trainer.ErrOption.
type FolderError struct {
	Dir    string
	Reason string // the mistake, and what to do
}

func (e *FolderError) Error() string {
	return fmt.Sprintf("folder %q of a run: %s: %v", e.Dir, e.Reason, trainer.ErrOption)
}

// Unwrap returns trainer.ErrOption.
func (e *FolderError) Unwrap() error { return trainer.ErrOption }

// ErrControl is the class of errors of Stop and Checkpoint where the program has given the run no
// function for them.
var ErrControl = errors.New("this run has no such control")
