package compile

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// kernelOp is an operation of package layers that is one of ours. Its operands are those of the op, but for these:
//
//	batchNorm  x, gamma, beta and the running mean and variance, which are inputs without an op
//	dropout    x
type kernelOp interface {
	Kernel() (op *kernels.Op, attrs any)
}

// lowerKernel reads such an operation.
func lowerKernel(r *reader, n *gorgonia.Node, k kernelOp) (*rule, error) {
	op, attrs := k.Kernel()
	in := children(n)
	if op == kernels.Gather && len(in) == 2 {
		return r.gather(n), nil
	}
	switch a := attrs.(type) {
	case kernels.DropoutAttrs:
		return r.drop(in[0], a)
	case kernels.BatchNormAttrs:
		if op != kernels.BatchNorm {
			break
		}
		if len(in) != 5 {
			return nil, fmt.Errorf("batch normalization of %d operands, takes 5: %w", len(in), kernels.ErrShape)
		}
		return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
			s := running{fixed: !r.training() || r.frozen(in[3].Name()) || r.frozen(in[4].Name()), mean: v[3], variance: v[4]}
			if r.Mode == Machine && !s.fixed {
				s = r.hostStatistics(n, r.Spec(v[3]), false, in[3].Value, in[4].Value)
			}
			return r.batchNorm(n, a, v[0], v[1], v[2], s)
		}}, nil
	}
	return r.use(op, attrs, in...), nil
}

// lowerDropout reads Gorgonia's dropout.
func lowerDropout(r *reader, n *gorgonia.Node) (*rule, error) {
	p, err := dropoutOf(n)
	if err != nil {
		return nil, err
	}
	return r.drop(children(n)[0], kernels.DropoutAttrs{Rate: p, Layer: kernels.LayerKey(n.Name())})
}

// lowerDropoutDiff reads its gradient, of its operand, result and the result's gradient: what the result's mask leaves of that. Gorgonia's
// own divides by the probability of dropping.
func lowerDropoutDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	p, err := dropoutOf(n)
	if err != nil {
		return nil, err
	}
	in := children(n)
	if len(in) != 3 || !is(in[1], "*gorgonia.dropoutOp") {
		return nil, fmt.Errorf("the gradient of a dropout that is not there: %w", ErrUnsupported)
	}
	return r.drop(in[2], kernels.DropoutAttrs{Rate: p, Layer: kernels.LayerKey(in[1].Name())})
}

// dropoutOf returns the probability of dropping of Gorgonia's dropout, which need not drop in training either.
func dropoutOf(n *gorgonia.Node) (float64, error) {
	f := fields{n.Op()}
	p, err := f.Float("probability")
	if err != nil {
		return 0, err
	}
	training, err := f.Bool("isTraining")
	if err != nil || !training {
		return 0, err
	}
	return p, nil
}

// drop drops elements of x in training, and nothing otherwise. Which ones is a function of the seed, which is the program's whatever a
// says, the number of the step, the layer and the element.
func (r *reader) drop(x *gorgonia.Node, a kernels.DropoutAttrs) (*rule, error) {
	if a.Rate == 0 || !r.training() {
		return same(x), nil
	}
	a.Seed = r.Seed
	return &rule{in: gorgonia.Nodes{x}, build: func(v []kernels.Value) (kernels.Value, error) {
		controls, err := r.Controls()
		if err != nil {
			return kernels.None, err
		}
		return r.Apply(kernels.Dropout, a, v[0], controls), nil
	}}, nil
}
