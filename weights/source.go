package weights

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// Source has weights to save: a *trainer.Trainer, a trainer.Averaged or a *trainer.Predictor.
type Source interface {
	// Weights returns names, types and shapes.
	Weights() []trainer.NamedSpec
	// ReadWeights calls read, in which all weights are those after the same step.
	ReadWeights(ctx context.Context, read func(w trainer.Weights) error) error
}

// Target has weights to load: a *trainer.Trainer or a *trainer.Predictor.
type Target interface {
	Source
	// WriteWeights calls write, which sets weights. Nothing else uses these meanwhile.
	WriteWeights(ctx context.Context, write func(w trainer.Weights) error) error
}

// elementReader copies elements of tensors or weights by name. trainer.Weights is one.
type elementReader interface {
	ReadAt(name string, dst []byte, offset int64) error
}

// tensorReader has the tensors that weights are loaded from.
type tensorReader interface {
	elementReader
	Tensors() []safetensors.Tensor
}

// tensorOf returns a weight as a tensor of a file.
func tensorOf(w trainer.NamedSpec) safetensors.Tensor {
	return safetensors.Tensor{Name: w.Name, DType: safetensors.TypeOf(w.Spec.Type), Shape: append([]int{}, w.Spec.Shape...)}
}

// weightsOf returns the weights of a source, or an error if it has none: it is closed.
func weightsOf(s Source) ([]trainer.NamedSpec, error) {
	all := s.Weights()
	if len(all) == 0 {
		return nil, fmt.Errorf("it has no weights, or it is %w", trainer.ErrClosed)
	}
	return all, nil
}
