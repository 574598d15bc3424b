package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// An operation is a layer without parameters whose name may be empty. The files slice.go, join.go,
// shape.go, constant.go, compare.go, scan.go, topk.go, arithmetic.go, elementwise.go, reduce.go,
// softmax.go, matmul.go and einsum.go have the operations, one family each. An operation that is a
// formula of several operations of package kernels is one node: see compose.go.

// operation describes an operation in errors: `slice "gate"`, or without a name `slice of "x"`.
func operation(what, name string, x *gorgonia.Node) string {
	if name == "" && x != nil {
		return fmt.Sprintf("%s of %q", what, x.Name())
	}
	return fmt.Sprintf("%s %q", what, name)
}

// operands reports whether all of in can be operands of a layer: nodes of the net's graph, of types
// that can be stored. It records an error if not.
func (n *Net) operands(layer string, in ...*gorgonia.Node) bool {
	if !n.usable() {
		return false
	}
	for i, x := range in {
		what := "input"
		if len(in) > 1 {
			what = fmt.Sprintf("input %d", i)
		}
		if err := n.checkNode(layer, what, x); err != nil {
			n.fail(err)
			return false
		}
		if _, ok := storage[x.Dtype()]; !ok {
			hint := ""
			if x.Dtype() == tensor.Bool {
				hint = ": the comparisons of package layers give 0 and 1"
			}
			n.fail(fmt.Errorf("%s: %q is of type %s, which cannot be stored%s: %w", layer, x.Name(), typeString(x.Dtype()), hint, ErrShape))
			return false
		}
	}
	return true
}

// floats reports whether all of in are operands of one floating-point type, and records an error if
// not.
func (n *Net) floats(layer string, in ...*gorgonia.Node) bool {
	if !n.operands(layer, in...) {
		return false
	}
	for _, x := range in {
		if t := x.Dtype(); !storage[t].Float() || t != in[0].Dtype() {
			n.fail(fmt.Errorf("%s: %q is of type %s, must be %s: use Cast: %w", layer, x.Name(), typeString(t), floatString(in[0].Dtype()), ErrShape))
			return false
		}
	}
	return true
}

// floatString names the floating-point type t, or both types if t is another one.
func floatString(t tensor.Dtype) string {
	if storage[t].Float() {
		return typeString(t)
	}
	return "float32 or float64"
}

// operate adds the node of an operation, the value of output 0 of op. An empty name is replaced by
// what and a number.
func (n *Net) operate(what, name string, op *kernels.Op, attrs any, in ...*gorgonia.Node) *gorgonia.Node {
	return n.operateOutput(what, name, op, attrs, 0, in...)
}

// operateOutput is operate for any output of op.
func (n *Net) operateOutput(what, name string, op *kernels.Op, attrs any, output int, in ...*gorgonia.Node) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	layer, label := operation(what, name, in[0]), n.nameOf(what, name)
	y := n.node(layer, op, attrs, output, in...)
	return n.keepOrLabel(layer, name, label, y, nil)
}

// nameOf returns name, or if it is empty what and the number of the next operation.
func (n *Net) nameOf(what, name string) string {
	if name != "" {
		return name
	}
	n.findIDs()
	return fmt.Sprintf("%s %d", what, n.lastID+1)
}

// keepOrLabel keeps y under a name, or, if that is empty, labels it.
func (n *Net) keepOrLabel(layer, name, label string, y *gorgonia.Node, err error) *gorgonia.Node {
	if err == nil && name == "" {
		n.lines.add(label)
		return labelled(y, label)
	}
	return n.keep(layer, name, y, err)
}

// labelled gives y, which may be nil, a name with the number of its operation. It is not looked up
// among those of all nodes, as keep does: that would take long in a large graph.
func labelled(y *gorgonia.Node, name string) *gorgonia.Node {
	if y != nil {
		gorgonia.WithName(name)(y)
	}
	return y
}

// part returns the name of a node that an operation adds besides its result: empty if the operation
// has no name.
func part(name, what string) string {
	if name == "" {
		return ""
	}
	return name + " " + what
}

// axisOf returns axis as 0, 1, …: one below 0 counts from the end. It records an error if x has no such
// axis.
func (n *Net) axisOf(layer string, x *gorgonia.Node, axis int) (int, bool) {
	dims := x.Dims()
	if axis < -dims || axis >= dims {
		n.fail(fmt.Errorf("%s: input %s has no axis %d: %w", layer, shapeString(x.Shape()), axis, ErrShape))
		return 0, false
	}
	if axis < 0 {
		axis += dims
	}
	return axis, true
}
