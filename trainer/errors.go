package trainer

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
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
	ErrNonFinite = errors.New("not finite")                // see NonFiniteError
	ErrLabel     = errors.New("label outside the classes") // see NonFiniteError
	ErrIndex     = layout.ErrIndex                         // see IndexError
	ErrBusy      = dataloader.ErrBusy                      // another call uses the trainer
	// ErrClosed: the trainer was closed, or is nil or a zero Trainer that New did not return.
	ErrClosed = arena.ErrClosed
)

// errNilContext is the error of a call without a context.
var errNilContext = fmt.Errorf("nil context: %w", ErrOption)

// errClosed is the error of a closed trainer.
var errClosed = fmt.Errorf("the trainer is %w", ErrClosed)
