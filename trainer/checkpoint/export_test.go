package checkpoint

import (
	"os"
	"time"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// SetFiles replaces the file system that checkpoints are written to.
func (f *Folder) SetFiles(files atomicfile.FS) { f.files = files }

// SetClock replaces the clock.
func (f *Folder) SetClock(now func() time.Time) { f.now = now }

// SetWatching sets a function that the watch of Fit calls before it captures. ended is closed when
// the pass has ended.
func (f *Folder) SetWatching(call func(ended <-chan struct{})) { f.watching = call }

// FailLocks makes the file of every lock fail to open, until restore is called.
func FailLocks(err error) (restore func()) {
	openLock = func(path string, _ int, _ os.FileMode) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return func() { openLock = os.OpenFile }
}

// StepOf returns the step of the checkpoint with a name.
var StepOf = stepOf
