package npz

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// Classes of errors, for errors.Is.
var (
	// ErrFormat: the file is no .npz file, or a damaged one. The error is a *FormatError.
	ErrFormat = errors.New("not a valid npz file")
	// ErrOption: an argument is outside its range. It is [arena.ErrOption].
	ErrOption = arena.ErrOption
	// ErrClosed: the file was closed. It is [arena.ErrClosed].
	ErrClosed = arena.ErrClosed
)

// FormatError reports the first place where a file violates the format. It unwraps to ErrFormat and
// to Err.
type FormatError struct {
	File   string // its path, "" for a reader
	Entry  string // name in the archive, "" for the archive itself
	Offset int64  // bytes from the start of the entry
	Reason string
	Err    error // the cause, such as zip.ErrChecksum, or nil
}

// Error returns the file, the entry, the place and the reason.
func (e *FormatError) Error() string {
	file := e.File
	if file == "" {
		file = "input"
	}
	s := file + ": "
	if e.Entry != "" {
		s += fmt.Sprintf("entry %q: ", shorten(e.Entry))
	}
	if e.Entry != "" || e.Offset > 0 {
		s += fmt.Sprintf("byte %d: ", e.Offset)
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

// shorten bounds a text from a file for an error.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
