package layers

import (
	"errors"
	"fmt"
	"reflect"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// The classes of error. What this package returns wraps one of them.
var (
	// ErrShape is wrapped by errors about nodes, and values, whose shape or type does not fit their layer.
	ErrShape = kernels.ErrShape
	// ErrName is wrapped by errors about names that are empty or taken.
	ErrName = errors.New("bad name")
	// ErrNode is wrapped by errors about graphs and nodes that are nil, of another graph, or refused by Gorgonia.
	ErrNode = errors.New("bad node")
	// ErrInit is wrapped by errors about an Init that is nil, panics, or makes values that are not finite.
	ErrInit = errors.New("bad initial values")
)

// checkNode returns why a net cannot build on x, or nil.
func (n *Net) checkNode(layer, what string, x *gorgonia.Node) error {
	switch {
	case x == nil:
		return fmt.Errorf("%s: the %s is nil: %w", layer, what, ErrNode)
	case x.Graph() != n.g:
		return fmt.Errorf("%s: %q belongs to another graph: %w", layer, x.Name(), ErrNode)
	case x.Type() == nil:
		return fmt.Errorf("%s: the %s %q is a statement, it has no value: %w", layer, what, x.Name(), ErrNode)
	}
	return nil
}

// checkInit returns why a parameter cannot start as init says, or nil.
func checkInit(init Init) error {
	if init == nil {
		return fmt.Errorf("no init: use layers.Zeros{}, layers.HeUniform{} or another: %w", ErrInit)
	}
	if v := reflect.ValueOf(init); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("init is a nil %T: %w", init, ErrInit)
	}
	return nil
}

// typeString names a type of elements, also the zero one, which Gorgonia cannot print.
func typeString(t tensor.Dtype) string {
	if t.Type == nil {
		return "no type"
	}
	return t.String()
}
