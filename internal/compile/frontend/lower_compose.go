package frontend

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// composedOp is an op of package layers that appends the operations which compute its node.
type composedOp interface {
	Compose(g kernels.Graph, in []kernels.Value) kernels.Value
}

// lowerComposed lowers an op of package layers that consists of several operations.
func lowerComposed(r *reader, n *gorgonia.Node, op composedOp) *rule {
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) { return op.Compose(r.Builder, v), nil }}
}
