// Package folderlock locks a folder for one process, by a file in it whose lock ends with the process.
package folderlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Name is the name of the file that a process locks while it has the folder. The lock ends with
// the process, however that ends; the file stays.
const Name = "lock"

// HeldError reports a folder that another process, or another lock of this one, holds.
type HeldError struct {
	Dir  string
	PID  int    // of the other process; 0 if it is not known
	Host string // that the other process runs on; "" if it is not known
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by %s", e.Dir, Holder(e.PID, e.Host))
}

// Holder names a process that holds a folder: "process 12 on host", or "another process" if pid is 0.
func Holder(pid int, host string) string {
	if pid > 0 {
		return fmt.Sprintf("process %d on %s", pid, host)
	}
	return "another process"
}

// errHeld is the error of lockFile if another process has the lock.
var errHeld = errors.New("held")

// Lock is the lock of a folder. Its methods must not be called at once.
type Lock struct {
	dir  string
	file *os.File
}

// Open opens the file of a lock. os.OpenFile is one; tests have others.
type Open func(name string, flag int, perm os.FileMode) (*os.File, error)

// Acquire locks dir, an existing folder, by a file that open opens; nil: os.OpenFile. If another
// process has it, the error is a *HeldError with what that process wrote to the file.
func Acquire(dir string, open Open) (*Lock, error) {
	if open == nil {
		open = os.OpenFile
	}
	file, err := open(filepath.Join(dir, Name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		defer file.Close()
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		e := &HeldError{Dir: dir}
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
	return &Lock{dir, file}, nil
}

// Held reports whether the file of the lock is still that of the folder: both may have been removed
// and made anew, and then another process can lock the new ones.
func (l *Lock) Held() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(filepath.Join(l.dir, Name))
	return err == nil && os.SameFile(mine, now)
}

// Release ends the lock. Without one it does nothing; the file stays.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
