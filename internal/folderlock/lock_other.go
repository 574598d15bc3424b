//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package folderlock

import (
	"errors"
	"os"
)

// lockFile reports that this system has no lock that ends with its process.
func lockFile(*os.File) error { return errors.ErrUnsupported }
