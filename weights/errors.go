package weights

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
)

// BadValue is the first bad element of a tensor.
type BadValue struct {
	Name  string
	Index int64  // of the element, row-major
	Value string // "NaN", "+Inf", or an integer that the weight's type cannot hold
	Count int64  // bad elements of the tensor; of integers only the first is looked for
}

// ValueError lists the tensors with values that are refused: NaN, infinity, and integers outside
// the range of the weight's type. Nothing was written or changed. It wraps trainer.ErrNonFinite, or
// trainer.ErrData if all of them are integers.
type ValueError struct {
	Source  string // a file, or "" for the weights of a trainer or predictor
	Tensors []BadValue

	finite bool // all are integers
}

func (e *ValueError) Error() string {
	var parts []string
	for _, b := range e.Tensors[:min(len(e.Tensors), 10)] {
		text := fmt.Sprintf("%q has %s at element %d", b.Name, b.Value, b.Index)
		if b.Count > 1 {
			text += fmt.Sprintf(", and %d more", b.Count-1)
		}
		parts = append(parts, text)
	}
	if n := len(e.Tensors) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("%d more tensors", n))
	}
	hint := "set AllowNonFinite to accept them"
	if e.finite {
		hint = "the weights' type cannot hold them"
	}
	source := ""
	if e.Source != "" {
		source = e.Source + ": "
	}
	return fmt.Sprintf("%s%s: %s: %v", source, strings.Join(parts, "; "), hint, e.Unwrap())
}

// Unwrap returns trainer.ErrNonFinite or trainer.ErrData.
func (e *ValueError) Unwrap() error {
	if e.finite {
		return trainer.ErrData
	}
	return trainer.ErrNonFinite
}

// callError is an error of Load or Clone.
type callError struct {
	call string
	error
}

// named adds the call to its error.
func named(call string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{call, err}
}

// Error begins with the call, once: a *trainer.WeightsError begins with "load weights" itself.
func (e *callError) Error() string {
	return e.call + ": " + strings.TrimPrefix(e.error.Error(), "load weights: ")
}

func (e *callError) Unwrap() error { return e.error }

// ErrPartial: Load or Clone failed after the first weight was set, and could not set the former
// values again. The weights are in part the former ones and in part the new.
var ErrPartial = errors.New("the weights are in part the former ones and in part the new")
