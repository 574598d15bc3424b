//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package folderlock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file until it is closed. It returns errHeld if another holder has it.
func lockFile(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		case errors.Is(err, unix.EINTR):
		default:
			return err
		}
	}
}
