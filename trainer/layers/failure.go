package layers

import (
	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Fail records err as the error of the net, unless it has one: for functions outside of this package
// that add layers and find a mistake. It does nothing if err is nil.
func (n *Net) Fail(err error) {
	if err != nil {
		n.fail(err)
	}
}

// Failed returns the first error of a net that adds to g, or nil. A layer with an error returns a
// nil node, on which Gorgonia's functions panic: Failed has the cause. The trainer calls it after the
// model function, and after a panic in it.
func Failed(g *gorgonia.ExprGraph) error {
	if g == nil {
		return nil
	}
	for _, n := range g.AllNodes() {
		if f, ok := n.Op().(*failure); ok {
			return f.err
		}
	}
	return nil
}

// failure is the operation of a node that records the error of a net in its graph.  → a scalar that
// cannot be computed.
type failure struct {
	base
	err error
}

// mark adds a node with the first error to the graph.
func (n *Net) mark() {
	op := &failure{base{id: n.id(0), name: "layerError", signature: []hm.Type{tensor.Float32}}, n.err}
	gorgonia.NewUniqueNode(gorgonia.In(n.g), gorgonia.WithType(tensor.Float32), gorgonia.WithOp(op), gorgonia.WithShape())
}

// Failure returns the error. The compiler and the machines report it.
func (f *failure) Failure() error { return f.err }

// Type returns the type of the node, which has no operands.
func (*failure) Type() hm.Type { return tensor.Float32 }

// InferShape returns the shape of a scalar.
func (*failure) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	return tensor.ScalarShape(), nil
}

// Do returns the error.
func (f *failure) Do(...gorgonia.Value) (gorgonia.Value, error) { return nil, f.err }
