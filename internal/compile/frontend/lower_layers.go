package frontend

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Ops of package layers, for layers that Gorgonia lacks or computes wrongly.

// kernelOp is an op of package layers, which names the operation that computes it, and the output of
// the operation that is the node's value. The node has the
// operands of the operation, with two exceptions:
//
//	batchNorm  also has the running mean and variance: x, gamma, beta, mean, variance
//	dropout    lacks the controls vector: x
type kernelOp interface {
	Kernel() (op *kernels.Op, attrs any, output int)
}

// lowerKernel lowers an op of package layers.
func lowerKernel(r *reader, n *gorgonia.Node, k kernelOp) (*rule, error) {
	op, attrs, output := k.Kernel()
	in := children(n)
	if op == kernels.Gather && len(in) == 2 {
		return r.gather(n, 0), nil
	}
	switch a := attrs.(type) {
	case kernels.DropoutAttrs:
		return r.dropout(in[0], a)
	case kernels.BatchNormAttrs:
		if op != kernels.BatchNorm {
			break
		}
		if len(in) != 5 {
			return nil, fmt.Errorf("batch normalization has %d operands, want 5: %w", len(in), kernels.ErrShape)
		}
		return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
			// The running statistics stay as they are if either is frozen.
			s := runningStats{fixed: !r.Training || r.frozen(in[3].Name()) || r.frozen(in[4].Name()), mean: v[3], variance: v[4]}
			if r.Machine && !s.fixed {
				s = r.hostStatistics(n, r.Spec(v[3]), false, in[3].Value, in[4].Value)
			}
			return r.batchNorm(n, a, v[0], v[1], v[2], s)
		}}, nil
	}
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
		if op == kernels.Where || op == kernels.Concat {
			v = r.alike(n, v)
		}
		return r.ApplyAll(op, attrs, v...)[output], nil
	}}, nil
}
