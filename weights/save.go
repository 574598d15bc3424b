package weights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/npz"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// ShardBytes is the default of SaveOptions.ShardBytes.
const ShardBytes = 5 << 30

// SaveOptions are the options of Save. The zero value saves all weights as they are.
type SaveOptions struct {
	// Rules say how the file names and shapes its tensors, such as Torch() for PyTorch. Default: as
	// the model does.
	Rules Rules
	// Only and Except are patterns of the weights to save, as in LoadOptions. Default: all.
	Only, Except []string
	// DType is the type that floats are rounded to: safetensors.BFloat16 halves the file. Default:
	// the type of each weight.
	DType safetensors.DType
	// ShardBytes is the size from which several files and an index are written, unless they are
	// NumPy's. Default: 5 GiB.
	ShardBytes int64
	// Metadata are texts in the header; NumPy's files have none. Default: "format": "pt", which
	// Hugging Face's readers need.
	Metadata map[string]string
	// AllowNonFinite saves NaN and infinity, too.
	AllowNonFinite bool

	files atomicfile.FS // nil: the operating system's
}

// Save writes the weights to the file at path, all as they are after the same step: as
// Source.ReadWeights it may be called at any time, and training waits for it while it runs. Names
// are those of the model, such as "hidden/w". If path ends in ".npz" the file is one of NumPy's,
// else it is in the safetensors format: above ShardBytes several files and path + ".index.json".
// Names of other formats, such as ".pt", ".bin" and ".onnx", are an error that wraps
// trainer.ErrOption: a reader would take the file for one of them.
//
// The file is replaced in one step: after an error, or a crash at any instant, path holds the
// former weights or the new ones. Save refuses values that are not finite, with a *ValueError that
// lists all. Cancelling ctx ends it.
func Save(ctx context.Context, path string, from Source, opt SaveOptions) error {
	if err := save(ctx, path, from, &opt); err != nil {
		return fmt.Errorf("save weights: %w", err)
	}
	return nil
}

func save(ctx context.Context, path string, from Source, opt *SaveOptions) error {
	if ctx == nil || from == nil {
		return fmt.Errorf("it needs a context and a trainer or predictor: %w", trainer.ErrOption)
	}
	if opt.DType != "" && kindOf(opt.DType) != float {
		return fmt.Errorf("type %q: it must be a float of 16, 32 or 64 bits: %w", opt.DType, trainer.ErrOption)
	}
	if err := checkName(path); err != nil {
		return err
	}
	if opt.Metadata != nil && isNPZ(path) {
		return fmt.Errorf("metadata: NumPy's files have none: leave it out: %w", trainer.ErrOption)
	}
	if opt.ShardBytes < 0 {
		return fmt.Errorf("shards of %d bytes: it must be positive, or 0 for the default: %w", opt.ShardBytes, trainer.ErrOption)
	}
	weights, err := weightsOf(from)
	if err != nil {
		return err
	}
	if err := checkPatterns(opt.Only, opt.Except, weights); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(weights), func(w trainer.NamedSpec) bool { return !selected(opt.Only, opt.Except, w.Name) })
	plan, err := opt.Rules.planSave(weights, chosen, opt.DType)
	if err != nil {
		return err
	}
	tensors := plan.list()
	create := safetensors.CreateOptions{Checksum: true, ShardBytes: ShardBytes, Metadata: map[string]string{"format": "pt"}, FS: opt.files}
	if opt.ShardBytes > 0 {
		create.ShardBytes = opt.ShardBytes
	}
	if opt.Metadata != nil {
		create.Metadata = maps.Clone(opt.Metadata)
	}
	bad := &ValueError{Source: path}
	err = from.ReadWeights(ctx, func(w trainer.Weights) error {
		s := &saving{plan: plan, left: len(tensors), bad: bad, allow: opt.AllowNonFinite}
		s.pump = newPump(ctx, &planReader{plan: plan, weights: w})
		if isNPZ(path) {
			return npz.Create(ctx, path, tensors, npz.CreateOptions{FS: opt.files}, s.fill)
		}
		return safetensors.Create(ctx, path, tensors, create, s.fill)
	})
	if errors.Is(err, bad) {
		return bad // it names the tensors, which are others than the last one
	}
	return err
}

// otherFormats are the ends of names of files in formats that Save does not write. Load takes
// ".json" for an index.
var otherFormats = []string{".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".h5", ".gguf", ".onnx", ".npy", ".json"}

// checkName returns an error if the file would not be in the format that its name says.
func checkName(path string) error {
	end := filepath.Ext(path)
	if !slices.Contains(otherFormats, strings.ToLower(end)) {
		return nil
	}
	return fmt.Errorf("%s: Save does not write files of the format of %q: end the name in \".safetensors\", or in \".npz\" for NumPy: %w",
		path, end, trainer.ErrOption)
}

// saving writes the tensors of a file.
type saving struct {
	pump  *pump
	plan  *savePlan
	left  int // tensors
	bad   *ValueError
	allow bool
}

// fill writes a tensor. The last one fails if any had bad values, so that the file is given up.
func (s *saving) fill(t safetensors.Tensor, to io.Writer) error {
	v := BadValue{Name: t.Name}
	err := s.pump.convert(s.plan.tensors[s.plan.index[t.Name]].stored(), t.DType, func(piece []byte, offset int64) error {
		v.note(piece, t.DType, offset)
		_, err := to.Write(piece)
		return err
	})
	if err != nil {
		return err
	}
	if v.Count > 0 && !s.allow {
		s.bad.Tensors = append(s.bad.Tensors, v)
	}
	if s.left--; s.left == 0 && len(s.bad.Tensors) > 0 {
		return s.bad
	}
	return nil
}
