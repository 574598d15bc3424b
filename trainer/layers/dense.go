package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Activation adds a function of each element of x to n and returns its node, called name. The name may
// be empty.
type Activation func(n *Net, x *gorgonia.Node, name string) *gorgonia.Node

// Dense adds a fully connected layer, act(x·w + b).  x [B, In] → [B, out]. The parameters are
// name/w [In, out], which starts with Net.Weights, and name/b [out], which starts at 0. act may be
// nil.
func (n *Net) Dense(x *gorgonia.Node, name string, out int, act Activation) *gorgonia.Node {
	layer := fmt.Sprintf("dense %q", name)
	if !n.layer(layer, name, x) {
		return nil
	}
	switch {
	case x.Dims() != 2:
		hint := ""
		if x.Dims() > 2 {
			hint = ": use Flatten"
		}
		n.fail(fmt.Errorf("%s: input %s needs 2 dimensions%s: %w", layer, shapeString(x.Shape()), hint, ErrShape))
	case out < 1:
		n.fail(fmt.Errorf("%s: %d outputs: must be 1 or more: %w", layer, out, ErrShape))
	}
	if n.err != nil {
		return nil
	}
	w := n.Param(name+"/w", n.weights(act), x.Shape()[1], out)
	b := n.Param(name+"/b", Zeros{}, out)
	if n.err != nil {
		return nil
	}
	xw, err := gorgonia.Mul(x, w)
	if xw = n.keep(layer, name+"/xw", xw, err); xw == nil {
		return nil
	}
	y, err := gorgonia.BroadcastAdd(xw, b, nil, []byte{0})
	return n.activated(n.keep(layer, name+"/out", y, err), name, act)
}

// Flatten adds a view of x with one row for each sample.  x [B, ...] → [B, rest].
func (n *Net) Flatten(x *gorgonia.Node, name string) *gorgonia.Node {
	layer := fmt.Sprintf("flatten %q", name)
	if !n.ready(layer, x) {
		return nil
	}
	if x.Dims() == 0 {
		n.fail(fmt.Errorf("%s: the input is a scalar: %w", layer, ErrShape))
		return nil
	}
	batch, nodes := x.Shape()[0], len(n.g.AllNodes())
	to := []int{batch, x.Shape().TotalSize() / batch}
	y, err := gorgonia.Reshape(x, to)
	if err == nil && name != "" && len(n.g.AllNodes()) == nodes { // of a node that the graph has already: see activate
		return n.view("flatten", name, x, to)
	}
	return n.keep(layer, name, y, err)
}

// ReLU is the activation max(x, 0).
func ReLU(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.activate("relu", x, name, gorgonia.Rectify, kernels.ReLU)
}

// Sigmoid is the activation 1/(1+exp(-x)).
func Sigmoid(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.each("sigmoid", kernels.Sigmoid, x, name) // Gorgonia's own is exactly 1 from 19 on
}

// Tanh is the activation tanh(x).
func Tanh(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.activate("tanh", x, name, gorgonia.Tanh, kernels.Tanh)
}

// LeakyReLU returns the activation that is x for x > 0 and slope·x otherwise.
func LeakyReLU(slope float64) Activation {
	return func(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
		if !n.floats(operation("leaky relu", name, x), x) {
			return nil
		}
		return n.operate("leaky relu", name, kernels.LeakyReLU, kernels.LeakyReLUAttrs{Slope: slope}, x)
	}
}

// activate adds an activation that Gorgonia has, as its node, which its machines run fast. Where that
// would be a node that the graph has already, it adds one of op, which is not merged: both keep their
// names.
func (n *Net) activate(what string, x *gorgonia.Node, name string, f func(*gorgonia.Node) (*gorgonia.Node, error), op *kernels.Op) *gorgonia.Node {
	layer := operation(what, name, x)
	if !n.floats(layer, x) {
		return nil
	}
	if name == "" {
		return n.operate(what, name, op, nil, x)
	}
	nodes := len(n.g.AllNodes())
	y, err := f(x)
	if err == nil && len(n.g.AllNodes()) == nodes {
		return n.operate(what, name, op, nil, x)
	}
	return n.keep(layer, name, y, err)
}
