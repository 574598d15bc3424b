package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Apply adds an operation of package kernels, and returns the node of one of its outputs. It is for
// packages that translate models of other formats; the methods for layers say more about mistakes.
// The operands are those of the operation, with one exception: [kernels.BatchNorm] also takes the
// running mean and variance [C] after x, gamma and beta, and behaves as [Net.BatchNorm]. A name may
// be empty.
//
// Operands whose types or shapes do not fit are an error that wraps ErrShape, attributes that do
// not fit one that wraps [kernels.ErrAttrs]. An operation that changes an operand, such as an
// optimizer's, one without operands, and dropout, which [Net.Dropout] adds, are errors that wrap
// ErrNode.
func (n *Net) Apply(op *kernels.Op, attrs any, output int, name string, in ...*gorgonia.Node) *gorgonia.Node {
	if !n.usable() {
		return nil
	}
	if op == nil || len(op.Updates) > 0 || op.IsTransfer() || op == kernels.Dropout || op == kernels.Host || len(in) == 0 || output < 0 {
		what := "nil"
		if op != nil {
			what = op.Name
		}
		n.fail(fmt.Errorf("apply %q: output %d of operation %q with %d operands is no layer: %w", name, output, what, len(in), ErrNode))
		return nil
	}
	if !n.operands(operation(op.Name, name, nil), in...) {
		return nil
	}
	if op == kernels.BatchNorm && len(in) == 5 && output == 0 {
		return n.applyBatchNorm(attrs, name, in)
	}
	return n.operateOutput(op.Name, name, op, attrs, output, in...)
}

// applyBatchNorm adds batch normalization with running statistics.
func (n *Net) applyBatchNorm(attrs any, name string, in gorgonia.Nodes) *gorgonia.Node {
	layer, label := operation("batch norm", name, in[0]), n.nameOf("batch norm", name)
	specs := make([]kernels.Spec, len(in))
	for i, x := range in {
		specs[i] = kernels.Spec{Type: storage[x.Dtype()], Shape: kernels.Shape(x.Shape())}
	}
	// A batch of 1 is an error of training only, as it is of BatchNorm.
	if x := specs[0].Shape; len(x) > 1 && x[0] == 1 {
		specs[0].Shape = append(kernels.Shape{2}, x[1:]...)
	}
	if _, err := kernels.BatchNorm.Infer(attrs, specs[:3]); err != nil {
		n.fail(fmt.Errorf("%s: %w", layer, err))
		return nil
	}
	for _, s := range specs[3:] {
		if !s.Equal(specs[1]) {
			n.fail(fmt.Errorf("%s: running statistics %v and %v must be %v: %w", layer, specs[3], specs[4], specs[1], ErrShape))
			return nil
		}
	}
	op := &batchNorm{kernel: n.kernel(kernels.BatchNorm, attrs, 0, in[0].Dims(), in[0].Dtype(), in...)}
	y, err := gorgonia.ApplyOp(op, in...)
	return n.keepOrLabel(layer, name, label, y, err)
}
