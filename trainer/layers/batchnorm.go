package layers

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// batchNorm is batch normalization.  x [B, C, ...], gamma, beta, mean, variance [C] → y. The last
// two operands are the running statistics, which kernels.BatchNorm does not have: a Gorgonia
// machine updates them in training and reads them in evaluation mode. A batch with one element for
// each channel has no usable variance: only training refuses it.
type batchNorm struct {
	kernel
	mode
}

// InferShape returns the shape of x.
func (b *batchNorm) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return b.base.InferShape(in...)
}

// Do normalizes with the statistics of the batch and updates the running ones, or normalizes with
// the running ones.
func (b *batchNorm) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if err := b.check(in); err != nil {
		return nil, err
	}
	x, err := b.operands(in)
	if err != nil {
		return nil, err
	}
	if b.evaluate {
		y := make([]float64, len(x[0].Data))
		b.normalized(x, func(i, c int, normal, _ float64) { y[i] = x[1].Data[c]*normal + x[2].Data[c] })
		return result(in[0].Dtype(), y, in[0].Shape()...), nil
	}
	out, err := kernels.Eval(b.op, b.attrs, x[:3])
	if err != nil {
		return nil, err
	}
	count := float64(len(x[0].Data) / len(x[1].Data))
	for k, factor := range []float64{1, count / (count - 1)} {
		if err := b.update(in[3+k], x[3+k], out[1+k], factor); err != nil {
			return nil, err
		}
	}
	return result(in[0].Dtype(), out[0].Data, in[0].Shape()...), nil
}

// update moves a running statistic towards that of the batch.
func (b *batchNorm) update(to gorgonia.Value, running, batch kernels.Tensor, factor float64) error {
	attrs := kernels.RunningStatAttrs{Momentum: b.attrs.(kernels.BatchNormAttrs).Momentum, Factor: factor}
	guard := kernels.Tensor{Spec: kernels.GuardSpec, Data: make([]float64, kernels.GuardSpec.Shape.Elems())}
	next, err := kernels.Eval(kernels.RunningStat, attrs, []kernels.Tensor{running, batch, guard})
	if err != nil {
		return err
	}
	switch d := to.Data().(type) {
	case []float32:
		for i, v := range next[0].Data {
			d[i] = float32(v)
		}
	case []float64:
		copy(d, next[0].Data)
	default:
		return fmt.Errorf("%v: running statistic of type %T: %w", b, d, ErrShape)
	}
	return nil
}

// normalized calls visit for each element of x with its index, its channel, the normalized value
// (x − mean)/√(variance + eps) by the running statistics, and the divisor.
func (b *batchNorm) normalized(x []kernels.Tensor, visit func(i, c int, normal, deviation float64)) {
	channels := len(x[1].Data)
	plane := len(x[0].Data) / channels / x[0].Shape[0]
	eps := b.attrs.(kernels.BatchNormAttrs).Eps
	for i, v := range x[0].Data {
		c := i / plane % channels
		deviation := math.Sqrt(x[4].Data[c] + eps)
		visit(i, c, (v-x[3].Data[c])/deviation, deviation)
	}
}

// DiffWRT reports gradients for all operands except the running statistics.
func (*batchNorm) DiffWRT(int) []bool { return []bool{true, true, true, false, false} }

// SymDiff adds the gradients of x, gamma and beta.
func (b *batchNorm) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	return b.gradients(in, dy, b.DiffWRT(len(in)), func(x []kernels.Tensor, dy kernels.Tensor, wrt int) ([]float64, error) {
		if !b.evaluate {
			return b.gradient(x[:3], dy, wrt)
		}
		d := make([]float64, len(x[wrt].Data))
		b.normalized(x, func(i, c int, normal, deviation float64) {
			switch wrt {
			case 0:
				d[i] = dy.Data[i] * x[1].Data[c] / deviation
			case 1:
				d[c] += dy.Data[i] * normal
			case 2:
				d[c] += dy.Data[i]
			}
		})
		return d, nil
	})
}
