package vm

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
)

// Grad marks the inputs whose gradients of a loss a machine is to compute, and returns a node for
// each gradient. It replaces gorgonia.Grad where a graph is only run by machines of this package:
//
//   - Graphs that gorgonia.Grad refuses, or differentiates wrongly, have gradients too.
//   - It adds one node for each gradient, where gorgonia.Grad adds several for each node of the graph.
//   - Several losses may share inputs and nodes: each call returns gradients of its own loss.
//
// The first node of an input becomes its Deriv, so that the input's Grad returns that gradient. The
// nodes of later calls have a value after a run if no other node reads them, or with
// gorgonia.Read or Options.Keep; it is the gradient of that run alone, also with Options.Bind.
//
// The loss must be one floating-point number, and depend on each input; errors wrap ErrModel.
func Grad(loss *gorgonia.Node, inputs ...*gorgonia.Node) (gorgonia.Nodes, error) {
	grads, err := frontend.Grad(loss, inputs...)
	if err != nil {
		return nil, fmt.Errorf("grad: %w: %w", err, ErrModel)
	}
	return grads, nil
}
