package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Dropout adds dropout: in training each element becomes 0 with probability rate, and the others
// are divided by 1 − rate. Evaluation and prediction return x.  x [...] → same, rate in [0, 1).
// Source: Srivastava et al., 2014.
//
// The dropped elements depend only on the trainer's seed, the training step, the node's name and
// the element, and not on the number of threads.
func (n *Net) Dropout(x *gorgonia.Node, name string, rate float64) *gorgonia.Node {
	layer := fmt.Sprintf("dropout %q", name)
	if !n.layer(layer, name, x) {
		return nil
	}
	if !(rate >= 0 && rate < 1) {
		n.fail(fmt.Errorf("%s: rate %v must be in [0, 1): %w", layer, rate, kernels.ErrAttrs))
		return nil
	}
	op := &dropout{kernel: n.kernel(kernels.Dropout, kernels.DropoutAttrs{Rate: rate, Layer: kernels.LayerKey(n.freshName(name))}, 0, x.Dims(), x.Dtype(), x)}
	y, err := gorgonia.ApplyOp(op, x)
	return n.keep(layer, name, y, err)
}

// dropout is kernels.Dropout without its controls, which the machine adds.  x → y. On a Gorgonia
// machine each run is a training step with seed 0; in evaluation mode it returns x.
type dropout struct {
	kernel
	mode
	step float64 // number of the latest step, from 1
}

// InferShape returns the shape of x.
func (d *dropout) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return d.base.InferShape(in...)
}

// Do begins a step and applies its mask.
func (d *dropout) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if err := d.check(in); err != nil {
		return nil, err
	}
	x, err := d.operands(in)
	if err != nil {
		return nil, err
	}
	d.step++
	y, err := d.drop(x[0])
	if err != nil {
		return nil, err
	}
	return result(in[0].Dtype(), y, in[0].Shape()...), nil
}

// drop applies the mask of the latest step.
func (d *dropout) drop(x kernels.Tensor) ([]float64, error) {
	if d.evaluate {
		return slices.Clone(x.Data), nil
	}
	controls := kernels.Tensor{Spec: kernels.ControlsSpec, Data: make([]float64, kernels.Controls)}
	controls.Data[kernels.ControlStep] = d.step
	y, err := kernels.Eval(d.op, d.attrs, []kernels.Tensor{x, controls})
	if err != nil {
		return nil, err
	}
	return y[0].Data, nil
}

// DiffWRT reports that x has a gradient.
func (*dropout) DiffWRT(int) []bool { return []bool{true} }

// SymDiff adds the gradient of x: dy with the mask of x. Its input is y, so that a machine computes
// it after Do.
func (d *dropout) SymDiff(_ gorgonia.Nodes, y, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	return d.gradients(gorgonia.Nodes{y}, dy, d.DiffWRT(1), func(_ []kernels.Tensor, dy kernels.Tensor, _ int) ([]float64, error) {
		return d.drop(dy)
	})
}
