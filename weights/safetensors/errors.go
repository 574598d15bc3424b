package safetensors

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// Classes of errors, for errors.Is.
var (
	// ErrFormat: the file is no safetensors file, or a damaged one. The error is a *FormatError.
	ErrFormat = errors.New("not a valid safetensors file")
	// ErrChecksum: the file differs from what its checksum was computed of. The error is a
	// *FormatError.
	ErrChecksum = errors.New("the checksum differs: the file is damaged")
	// ErrNoChecksum: the file has no checksum to compare.
	ErrNoChecksum = errors.New("the file has no checksum")
	// ErrOption: an argument is outside its range. It is [arena.ErrOption].
	ErrOption = arena.ErrOption
	// ErrClosed: the file was closed. It is [arena.ErrClosed].
	ErrClosed = arena.ErrClosed
)

// FormatError reports the first place where a file violates the format. It unwraps to ErrFormat and
// to Err.
type FormatError struct {
	File   string // its path, "" for a reader
	Offset int64  // bytes from the start of the file
	Tensor string // the name of the tensor that is wrong, "" if it is no tensor's mistake
	Reason string
	Err    error // the cause, such as fs.ErrNotExist or ErrChecksum, or nil
}

// Error returns the file, the place and the reason.
func (e *FormatError) Error() string {
	file := e.File
	if file == "" {
		file = "input"
	}
	s := fmt.Sprintf("%s: byte %d: ", file, e.Offset)
	if e.Tensor != "" {
		s += fmt.Sprintf("tensor %q: ", shorten(e.Tensor))
	}
	s += e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrFormat and, if it is not nil, Err.
func (e *FormatError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrFormat, e.Err}
	}
	return []error{ErrFormat}
}

// shorten bounds a name from a file for an error.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
