package checkpoint

import (
	"errors"
	"os"

	"github.com/evenkeel/evenkeel/internal/folderlock"
)

// openLock is os.OpenFile, but in tests.
var openLock = os.OpenFile

// acquire locks dir. If another process has it, the error is a *LockedError.
func acquire(dir string) (*folderlock.Lock, error) {
	lock, err := folderlock.Acquire(dir, openLock)
	var held *folderlock.HeldError
	if errors.As(err, &held) {
		return nil, &LockedError{Dir: held.Dir, PID: held.PID, Host: held.Host}
	}
	return lock, err
}
