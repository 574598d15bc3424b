package vm

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Classes of errors, for errors.Is. They are the same values as in package trainer. Other classes
// are those of packages arena (ErrCapacity, ErrClosed) and kernels (ErrShape, ErrUnsupported).
var (
	ErrOption = arena.ErrOption
	ErrModel  = layout.ErrModel
	ErrData   = layout.ErrData
	ErrIndex  = layout.ErrIndex

	ErrDivision = layout.ErrDivision // see DivisionError
)

// errNotMade is the error of a nil Machine and of the zero Machine.
var errNotMade = fmt.Errorf("not made, use vm.New: the machine is %w", arena.ErrClosed)

// ValueError lists the inputs of a graph that have no value at the start of a run. It wraps
// ErrData.
type ValueError struct{ Nodes []string }

func (e *ValueError) Error() string {
	return fmt.Sprintf("inputs %q have no value: gorgonia.Let them have one before the run", e.Nodes)
}

// Unwrap returns ErrData.
func (e *ValueError) Unwrap() error { return ErrData }

// IndexError describes an index outside the rows of a table, as gorgonia.ByIndices reads them. It
// wraps ErrIndex.
type IndexError struct {
	Node  string // name of the node that reads rows of the table
	Index int64  // the bad index
	Rows  int    // rows of the table: valid indices are 0 to Rows-1
	At    int    // position of the index among all indices of the node
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("node %q: index %d at %d is not in 0..%d: %v", e.Node, e.Index, e.At, e.Rows-1, ErrIndex)
}

// Unwrap returns ErrIndex.
func (e *IndexError) Unwrap() error { return ErrIndex }

// DivisionError describes a division of an integer by 0, or 0 to a power below 0. It wraps
// ErrDivision.
type DivisionError struct {
	Node string // name of the node that divides
	At   int    // position of the divisor among the elements of its node; of a power, among those of the result
}

func (e *DivisionError) Error() string {
	return fmt.Sprintf("node %q: element %d: %v", e.Node, e.At, ErrDivision)
}

// Unwrap returns ErrDivision.
func (e *DivisionError) Unwrap() error { return ErrDivision }

// GradientError reports a loss that is computed from gradients: gradients of gradients are not
// supported. It wraps ErrModel.
type GradientError struct {
	Node string // name of the loss
	err  error
}

func (e *GradientError) Error() string { return fmt.Sprintf("%v: %v", e.err, ErrModel) }

// Unwrap returns ErrModel.
func (e *GradientError) Unwrap() error { return ErrModel }

// blameGradient returns a compiler's error about a gradient of a gradient as a *GradientError, and other
// errors as they are.
func blameGradient(err error) error {
	var e *frontend.GradientError
	if !errors.As(err, &e) {
		return err
	}
	return &GradientError{Node: e.Node, err: e}
}

// CapacityError reports a plan that needs more memory than there is. It wraps arena.ErrCapacity.
type CapacityError struct {
	Need  int64        // bytes of the plan
	Have  int64        // bytes that the plan may use
	Total int64        // whole memory of the device in bytes, if its free memory was the limit; 0 if Options.Memory was
	Plan  *report.Plan // the plan that does not fit
}

func (e *CapacityError) Error() string { return layout.Shortage(e.Plan, e.Need, e.Have, e.Total) }

// Unwrap returns arena.ErrCapacity.
func (e *CapacityError) Unwrap() error { return arena.ErrCapacity }

// recoverError turns a panic, usually one in Gorgonia's code, into an error. Defer it.
func recoverError(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: panic: %v: %w", what, p, ErrModel)
	}
}
