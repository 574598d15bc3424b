package layers

import (
	"errors"
	"fmt"
	"reflect"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// The classes of errors, for errors.Is. Every error of this package wraps one of them.
var (
	// ErrShape: the shape or type of a node or value does not fit its layer. It is
	// [kernels.ErrShape].
	ErrShape = kernels.ErrShape
	// ErrName: a name is empty, or the graph already has it.
	ErrName = errors.New("bad name")
	// ErrNode: a graph or node is nil, a node is of another graph, or Gorgonia refuses it.
	ErrNode = errors.New("bad node")
	// ErrInit: an Init is nil, panics, or returns a value that is not finite.
	ErrInit = errors.New("bad initial values")
)

// checkNode returns an error unless x is a value of the net's graph.
func (n *Net) checkNode(layer, what string, x *gorgonia.Node) error {
	switch {
	case x == nil:
		return fmt.Errorf("%s: the %s is nil: %w", layer, what, ErrNode)
	case x.Graph() != n.g:
		return fmt.Errorf("%s: %q belongs to another graph: %w", layer, x.Name(), ErrNode)
	case x.Type() == nil:
		return fmt.Errorf("%s: the %s %q is a statement without a value: %w", layer, what, x.Name(), ErrNode)
	}
	return nil
}

// checkInit returns an error if init is nil.
func checkInit(init Init) error {
	if init == nil {
		return fmt.Errorf("no init: use layers.Zeros{}, layers.HeUniform{} or another: %w", ErrInit)
	}
	if v := reflect.ValueOf(init); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("init is a nil %T: %w", init, ErrInit)
	}
	return nil
}

// typeString returns the name of t. Gorgonia cannot print the zero Dtype.
func typeString(t tensor.Dtype) string {
	if t.Type == nil {
		return "no type"
	}
	return t.String()
}
