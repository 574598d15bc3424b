package weights

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// Clone sets the weights of a trainer or predictor from those of another one, which may be on
// another device and have other types of floats. The weights of from are all as they are after the
// same step; as ReadWeights, Clone may be called while from trains. Options and errors are those of
// Load.
//
// The copy is made on the host, so that no call has both. trainer.Predictor.Load does the same on
// the device, for a predictor of the same model.
func Clone(ctx context.Context, to Target, from Source, opt LoadOptions) (Report, error) {
	r, err := clone(ctx, to, from, &opt)
	return r, named("clone weights", err)
}

// clone is Clone, with errors that do not say so.
func clone(ctx context.Context, to Target, from Source, opt *LoadOptions) (_ Report, err error) {
	if err := checkTarget(ctx, to); err != nil {
		return Report{}, err
	}
	if from == nil {
		return Report{}, fmt.Errorf("no source: %w", trainer.ErrOption)
	}
	weights, err := weightsOf(from)
	if err != nil {
		return Report{}, fmt.Errorf("source: %w", err)
	}
	c, err := newCopy(ctx, from, weights, opt.memory)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, c.data.close()) }()
	return load(ctx, c, "", to, opt)
}

// weightsCopy is a copy of weights on the host.
type weightsCopy struct {
	tensors []safetensors.Tensor
	starts  map[string]int64 // in data
	data    *spill
}

// newCopy copies all weights after the same step.
func newCopy(ctx context.Context, from Source, weights []trainer.NamedSpec, limit int64) (*weightsCopy, error) {
	c := &weightsCopy{starts: map[string]int64{}}
	total := int64(0)
	for _, w := range weights {
		c.tensors = append(c.tensors, tensorOf(w))
		c.starts[w.Name] = total
		total += w.Spec.Bytes()
	}
	var err error
	if c.data, err = newSpill(total, limit); err != nil {
		return nil, err
	}
	buffer := make([]byte, min(bufferBytes, total))
	err = from.ReadWeights(ctx, func(w trainer.Weights) error {
		for _, t := range c.tensors {
			err := pieces(ctx, t.Bytes(), func(offset, n int64) error {
				return errors.Join(w.ReadAt(t.Name, buffer[:n], offset), c.data.append(buffer[:n]))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.data.close())
	}
	return c, nil
}

// Tensors returns the names, types and shapes.
func (c *weightsCopy) Tensors() []safetensors.Tensor { return c.tensors }

// ReadAt copies a piece of a tensor.
func (c *weightsCopy) ReadAt(name string, dst []byte, offset int64) error {
	return c.data.readAt(dst, c.starts[name]+offset)
}
