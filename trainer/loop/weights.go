package loop

import (
	"fmt"

	"github.com/evenkeel/evenkeel/trainer"
)

// Weights is a copy of a trainer's parameters, constants and running statistics in host memory,
// allocated once. The state of the optimizer is not part of it. It is not safe for concurrent use.
type Weights struct {
	params []trainer.Param
	bytes  [][]byte
	kept   bool
}

// NewWeights allocates memory for the parameters of t, and keeps nothing yet. After t.Close it returns
// an error that wraps trainer.ErrClosed.
func NewWeights(t *trainer.Trainer) (*Weights, error) {
	params, err := t.Params()
	if err != nil {
		return nil, err
	}
	w := &Weights{params: params, bytes: make([][]byte, len(params))}
	for i, p := range params {
		w.bytes[i] = make([]byte, p.Spec.Bytes())
	}
	return w, nil
}

// Keep copies the parameters from the trainer. It may be called in a body of Trainer.Steps and between
// passes; during Fit and Evaluate it returns an error that wraps trainer.ErrBusy. After an error,
// nothing is kept.
func (w *Weights) Keep() error {
	w.kept = false
	for i, p := range w.params {
		if err := p.Read(w.bytes[i]); err != nil {
			return fmt.Errorf("keep weights: %w", err)
		}
	}
	w.kept = true
	return nil
}

// Restore copies what the last Keep kept to the trainer, when Keep may be called. It does nothing if
// nothing is kept: there was no best result.
func (w *Weights) Restore() error {
	if !w.kept {
		return nil
	}
	for i, p := range w.params {
		if err := p.Write(w.bytes[i]); err != nil {
			return fmt.Errorf("restore weights: %w", err)
		}
	}
	return nil
}

// Kept reports whether Restore has something to restore.
func (w *Weights) Kept() bool { return w.kept }

// Bytes returns the bytes of host memory that w takes.
func (w *Weights) Bytes() (n int64) {
	for _, b := range w.bytes {
		n += int64(len(b))
	}
	return n
}
