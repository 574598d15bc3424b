package trainer

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Param is a parameter of the model, a running statistic, or a constant of its graph. It is a
// reference: Read and Write copy the elements from and to the device, or pinned host memory if it
// is offloaded. A Param may be used from any goroutine until Trainer.Close; then it returns
// ErrClosed.
type Param struct {
	Name      string
	Spec      kernels.Spec // type and shape
	Frozen    bool         // training does not change it
	Statistic bool         // it is the running mean or variance of a batch normalization

	trainer *Trainer
	tensor  hostTensor
}

// Read copies the elements, row-major, to dst, which must have Spec.Bytes() bytes; dataloader.View
// shows these as numbers. While Fit or Evaluate runs it returns ErrBusy; in the body of Steps it
// reads what the step left.
func (p Param) Read(dst []byte) error {
	return p.use(func() error { return p.tensor.Read(dst) })
}

// Write sets the elements from src, which must have Spec.Bytes() bytes in the format of Read. The
// state of the optimizer stays as it is. While Fit or Evaluate runs it returns ErrBusy; in the body
// of Steps it takes effect in the next step.
func (p Param) Write(src []byte) error {
	return p.use(func() error { return p.tensor.Write(src) })
}

// use runs f while nothing else uses the device.
func (p Param) use(f func() error) error {
	if err := p.trainer.use().acquire(context.Background()); err != nil {
		return fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	defer p.trainer.usage.release()
	return f()
}

// Params returns all that a checkpoint needs of the model: its parameters and constants, in the
// order in which it first uses them, then its running statistics. After Close it returns ErrClosed.
func (t *Trainer) Params() ([]Param, error) {
	if t.use().isClosed() {
		return nil, errClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var ps []Param
	for _, home := range slices.Concat(t.plan.parameters(), t.plan.homes.Parts(ir.Statistics)) {
		h, err := t.memory.tensor(home.Ref, 0, home.Name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, Param{Name: home.Name, Spec: home.Spec, Frozen: t.plan.constant(home),
			Statistic: home.Ref.Region == ir.Statistics, trainer: t, tensor: h})
	}
	return ps, nil
}
