package trainer

import (
	"errors"
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Sentinels of this package. An error wraps one of them, or a sentinel of package arena, dataloader
// or kernels, or the error of a cancelled context, or what the model function, a dataset or the
// device returned.
var (
	ErrOption    = optim.ErrOption                         // an option or argument is outside its range
	ErrModel     = layout.ErrModel                         // the model function or its graph is wrong
	ErrData      = layout.ErrData                          // the data do not fit the model
	ErrNonFinite = kernels.ErrNonFinite                    // see NonFiniteError
	ErrLabel     = errors.New("label outside the classes") // see NonFiniteError
	ErrWeight    = errors.New("weight below 0")            // see NonFiniteError
	ErrIndex     = layout.ErrIndex                         // see IndexError
	ErrDivision  = layout.ErrDivision                      // see DivisionError
	ErrBusy      = dataloader.ErrBusy                      // another call uses the trainer
	// ErrClosed: the trainer was closed, or is nil or a zero Trainer that New did not return.
	ErrClosed = arena.ErrClosed
)

// errNilContext is the error of a call without a context.
var errNilContext = fmt.Errorf("nil context: %w", ErrOption)

// errClosed is the error of a closed trainer.
var errClosed = fmt.Errorf("the trainer is %w", ErrClosed)

// GradientError reports a node of a model that is computed from a gradient of gorgonia.Grad or vm.Grad:
// a trainer differentiates the loss itself, once. A graph whose results are gradients runs in package
// vm. It wraps ErrModel.
type GradientError struct {
	Node  string // name of the node that is computed from a gradient
	Of    string // name of the node whose gradient it is; empty: not known
	Batch int    // rows that the graph was built for
	err   error
}

func (e *GradientError) Error() string {
	return fmt.Sprintf("model function, batch %d: %v, or run the graph with package vm if the gradient is a result: %v", e.Batch, e.err, ErrModel)
}

// Unwrap returns ErrModel.
func (e *GradientError) Unwrap() error { return ErrModel }

// checkGradients returns a *GradientError if a program of m would read gradients.
func checkGradients(m frontend.Model, rows int) error {
	err := frontend.CheckForward(append(gorgonia.Nodes{m.Loss, m.Weight, m.Output, m.Correct}, m.Keep...)...)
	var e *frontend.GradientError
	if !errors.As(err, &e) {
		return err
	}
	return &GradientError{Node: e.Node, Of: e.Of, Batch: rows, err: e}
}

// SumLossError reports a Model.Loss that is a sum over the rows of the batch, where a mean is
// needed. A mean is needed because the loss of a step is weighted by its number of rows: for a
// short last batch, for accumulated gradients, and in evaluation. It wraps ErrModel. A sum is
// reported only if it is beyond doubt: a reduction or product over an axis that grows with the
// batch, in a term that is not divided by a number that grows with it. Not found are sums in
// functions that are not linear (the root of a sum, Norm), sums that go through Cast, Where or
// CumSum, sums of products with a field of one number a row (it may be a weight), and sums in
// operations that run as fallbacks, or in models for one batch size only.
type SumLossError struct {
	Loss  string // name of the loss
	Sum   string // name of the node that adds the rows up
	Batch int    // rows
}

func (e *SumLossError) Error() string {
	return fmt.Sprintf("loss %q is a sum over the %d rows of the batch, made by %q, and must be their mean: "+
		"use gorgonia.Mean instead, or multiply the sum by 1/batch; "+
		"if the data make it a mean, set Model.MeanLoss: %v", e.Loss, e.Batch, e.Sum, ErrModel)
}

// Unwrap returns ErrModel.
func (e *SumLossError) Unwrap() error { return ErrModel }
