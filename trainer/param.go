package trainer

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Param is a parameter, a constant, or a running statistic of the model, on the device or in pinned
// host memory.
type Param struct {
	Name      string
	Spec      kernels.Spec // type and shape
	Frozen    bool         // training does not change it
	Statistic bool         // it is the running mean or variance of a batch normalization

	trainer *Trainer
	tensor  hostTensor
}

// Read copies the parameter to dst, which has Spec.Bytes() bytes. While Fit or Evaluate runs it
// returns ErrBusy.
func (p Param) Read(dst []byte) error {
	return p.use(func() error { return p.tensor.Read(dst) })
}

// Write copies src, which has Spec.Bytes() bytes, to the parameter. While Fit or Evaluate runs it
// returns ErrBusy.
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

// Params returns everything that the model has learned: the parameters, in the order in which the
// model uses them first, then the running statistics.
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
