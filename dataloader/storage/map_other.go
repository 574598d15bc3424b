//go:build !unix && !windows

package storage

import (
	"errors"
	"os"
)

// mapFile reports that files are not mapped on this system.
func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// unmapFile is never called.
func unmapFile([]byte) error { return errors.ErrUnsupported }
