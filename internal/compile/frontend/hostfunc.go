package frontend

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// hostMark marks instructions that run a hostFunc in a plan.
const hostMark = "Go code on the host, which allocates"

// hostFunc is a function of this package on operands in memory of the program. It is the attribute
// of a kernels.Host instruction, for ops without a kernel that Gorgonia's own code computes wrongly.
// It keeps no state.
type hostFunc struct {
	node string // its name
	name string // of the function, in plans
	in   []kernels.Spec
	out  kernels.Spec
	run  func(in [][]float64, out []float64) error // out is zero
	// grad appends the gradients of the operands of n, None for those without one, given that of its
	// result. nil: it has no gradient.
	grad func(g *Graph, n kernels.Node, dy kernels.Value) []kernels.Value
}

// Infer returns the spec of the result.
func (f *hostFunc) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	if len(in) != len(f.in) {
		return nil, fmt.Errorf("%s reads %d operands, not %d: %w", f.name, len(f.in), len(in), kernels.ErrShape)
	}
	for i, s := range in {
		if !s.Equal(f.in[i]) {
			return nil, fmt.Errorf("operand %d of %s is %v, not %v: %w", i, f.name, s, f.in[i], kernels.ErrShape)
		}
	}
	return []kernels.Spec{f.out}, nil
}

// String names the function in plans.
func (f *hostFunc) String() string { return f.name }

// Run computes out[0] from in, in float64.
func (f *hostFunc) Run(in, out [][]byte) error {
	xs := make([][]float64, len(in))
	for i, s := range f.in {
		xs[i] = make([]float64, s.Shape.Elems())
		kernels.Load(xs[i], s.Type, in[i])
	}
	y := make([]float64, f.out.Shape.Elems())
	if err := f.run(xs, y); err != nil {
		return fmt.Errorf("node %q: %s: %w", f.node, f.name, err)
	}
	kernels.Store(out[0], f.out.Type, y)
	return nil
}

// applyHost appends an instruction that runs f.
func applyHost(b *ir.Builder, f *hostFunc, in ...kernels.Value) kernels.Value {
	mark := b.Mark
	b.Mark = hostMark
	defer func() { b.Mark = mark }()
	return b.Apply(kernels.Host, f, in...)
}
