package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// lockName is the name of the file that a process locks while it has the folder. The lock ends with
// the process, however that ends; the file stays.
const lockName = "lock"

// errHeld is the error of lockFile if another process has the lock.
var errHeld = errors.New("held")

// lock is the lock of a folder.
type lock struct {
	dir  string
	file *os.File
}

// openLock is os.OpenFile, but in tests.
var openLock = os.OpenFile

// acquire locks dir. If another process has it, it returns a *LockedError with what that process
// wrote to the file.
func acquire(dir string) (*lock, error) {
	file, err := openLock(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		defer file.Close()
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		e := &LockedError{Dir: dir}
		if text, err := io.ReadAll(io.LimitReader(file, 4096)); err == nil {
			// Nothing, if the other process has not written it yet.
			if n, _ := fmt.Sscanf(string(text), "%d", &e.PID); n == 1 {
				_, host, _ := strings.Cut(string(text), " ")
				e.Host = strings.TrimSpace(host)
			}
		}
		return nil, e
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	text := fmt.Sprintf("%d %s\n", os.Getpid(), host)
	// A full disk is no reason not to hold the lock: only the text for others is missing then.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(text), 0)
	}
	return &lock{dir, file}, nil
}

// held reports whether the file of the lock is still that of the folder: both may have been removed
// and made anew, and then another process can lock the new ones.
func (l *lock) held() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(filepath.Join(l.dir, lockName))
	return err == nil && os.SameFile(mine, now)
}

// release ends the lock. Without one it does nothing.
func (l *lock) release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
