package atomicfile

import (
	"crypto/rand"
	"errors"
	"os"
	"runtime"
	"syscall"
)

// OS is the file system of the operating system.
type OS struct{}

// Create makes a file with the permissions that the umask leaves.
func (OS) Create(path string) (Handle, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err // not a nil *os.File in a Handle
	}
	return f, nil
}

// Rename replaces to by from.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove removes a file.
func (OS) Remove(path string) error { return os.Remove(path) }

// SyncDir makes the names in a folder durable. It does nothing where folders have no fsync: on
// Windows, and on file systems that refuse it.
func (OS) SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// random returns a part of a file's name.
func random() string { return rand.Text()[:10] }
