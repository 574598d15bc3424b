package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Activation adds a function of each element of x to n and returns its node, called name.
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
	batch := x.Shape()[0]
	y, err := gorgonia.Reshape(x, []int{batch, x.Shape().TotalSize() / batch})
	return n.keep(layer, name, y, err)
}

// ReLU is the activation max(x, 0).
func ReLU(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.activate("relu", x, name, gorgonia.Rectify)
}

// Sigmoid is the activation 1/(1+exp(-x)).
func Sigmoid(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	layer := fmt.Sprintf("sigmoid %q", name)
	if !n.ready(layer, x) {
		return nil
	}
	return n.apply(layer, name, kernels.Sigmoid, nil, x) // Gorgonia's own is exactly 1 from 19 on
}

// Tanh is the activation tanh(x).
func Tanh(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
	return n.activate("tanh", x, name, gorgonia.Tanh)
}

// LeakyReLU returns the activation that is x for x > 0 and slope·x otherwise.
func LeakyReLU(slope float64) Activation {
	return func(n *Net, x *gorgonia.Node, name string) *gorgonia.Node {
		layer := fmt.Sprintf("leaky relu %q", name)
		if !n.ready(layer, x) {
			return nil
		}
		return n.apply(layer, name, kernels.LeakyReLU, kernels.LeakyReLUAttrs{Slope: slope}, x)
	}
}

// activate adds an activation of Gorgonia.
func (n *Net) activate(what string, x *gorgonia.Node, name string, f func(*gorgonia.Node) (*gorgonia.Node, error)) *gorgonia.Node {
	layer := fmt.Sprintf("%s %q", what, name)
	if !n.ready(layer, x) {
		return nil
	}
	y, err := f(x)
	return n.keep(layer, name, y, err)
}
