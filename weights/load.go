package weights

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/npz"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// LoadOptions are the options of Load and Clone. The zero value loads all weights, under the same
// names, and allows the source to have more.
type LoadOptions struct {
	// Rules say how the source names and shapes its tensors, such as Torch() for files of PyTorch.
	// Default: as the model does.
	Rules Rules
	// Only are patterns of the weights to set: a name, a layer or scope, or a pattern of
	// path.Match, as in trainer.Options.Frozen. Default: all.
	Only []string
	// Except are patterns of weights that keep their values, such as a new head's. Default: none.
	Except []string
	// Partial keeps the values of weights that the source lacks, which is an error else.
	Partial bool
	// Exact makes it an error that the source has a tensor that no weight is set from.
	Exact bool
	// AllowNonFinite accepts NaN and infinity.
	AllowNonFinite bool
	// RequireChecksum makes it an error that a file has no checksum. One that is there is always
	// compared; .npz files have one of each array. It does not concern Clone.
	RequireChecksum bool

	memory int64 // bytes of former values that are kept in memory; 0: memoryBytes
}

// Load sets weights from a file: of a name that ends in ".npz", one of NumPy's; else a safetensors
// file, an index of shards, or a folder, as safetensors.Open takes it. Floats of another type are
// converted, rounded to nearest; integers must fit.
//
// After an error all weights are as before. Names and shapes that do not fit are one
// *trainer.WeightsError, bad values one *ValueError, a damaged file is a *safetensors.FormatError or
// *npz.FormatError.
// While Fit or Evaluate of a trainer runs, Load returns trainer.ErrBusy. The state of the optimizer
// stays as it is. Load reads the file twice, after its checksum: a moment later nothing can fail but
// the device. Cancelling ctx ends it.
func Load(ctx context.Context, path string, to Target, opt LoadOptions) (Report, error) {
	r, err := loadFile(ctx, path, to, &opt)
	return r, named("load weights", err)
}

// loadFile is Load, with errors that do not say so.
func loadFile(ctx context.Context, path string, to Target, opt *LoadOptions) (_ Report, err error) {
	if err := checkTarget(ctx, to); err != nil {
		return Report{}, err
	}
	f, err := open(path)
	if err != nil {
		if pickle := checkPickle(path); pickle != nil {
			err = pickle
		}
		return Report{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Verify(ctx); err != nil && (opt.RequireChecksum || !errors.Is(err, safetensors.ErrNoChecksum)) {
		return Report{}, err
	}
	return load(ctx, f, path, to, opt)
}

// file is an open file of tensors.
type file interface {
	tensorReader
	Verify(ctx context.Context) error
	Close() error
}

// open opens a file by its name.
func open(path string) (file, error) {
	if isNPZ(path) {
		return npz.Open(path)
	}
	return safetensors.Open(path)
}

// isNPZ reports whether a path is that of a file of NumPy.
func isNPZ(path string) bool { return strings.HasSuffix(path, ".npz") }

// checkTarget returns an error if weights cannot be loaded at all.
func checkTarget(ctx context.Context, to Target) error {
	if ctx == nil || to == nil {
		return fmt.Errorf("it needs a context and a trainer or predictor: %w", trainer.ErrOption)
	}
	return ctx.Err()
}

// load sets weights from the tensors of a source, whose name is for errors.
func load(ctx context.Context, from tensorReader, source string, to Target, opt *LoadOptions) (Report, error) {
	weights, err := weightsOf(to)
	if err != nil {
		return Report{}, err
	}
	if err := checkPatterns(opt.Only, opt.Except, weights); err != nil {
		return Report{}, err
	}
	all, report, err := match(weights, from.Tensors(), source, opt)
	if err != nil {
		return Report{}, err
	}
	p := newPump(ctx, from)
	if err := p.check(all, source, opt.AllowNonFinite); err != nil {
		return Report{}, err
	}
	if err := p.put(to, all, opt.memory); err != nil {
		return Report{}, err
	}
	return report, nil
}
