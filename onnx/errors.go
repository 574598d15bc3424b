package onnx

import (
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// ErrFormat is the class of errors about files that are not as ONNX wants them.
var ErrFormat = proto.ErrFormat

// A FormatError says where a file is not as ONNX wants it. It wraps ErrFormat.
type FormatError = proto.FormatError

// A NodeError says why a node of a model is not imported.
type NodeError struct {
	Node   string // name of the node, or of its first output if it has none
	Index  int    // position in the file, from 0
	Op     string // operator, with its domain if that is not ONNX's own
	Reason error  // wraps kernels.ErrUnsupported, kernels.ErrShape, kernels.ErrAttrs or ErrFormat
}

// Error names the node, its operator and the reason.
func (e *NodeError) Error() string {
	return fmt.Sprintf("node %d %q (%s): %v", e.Index, e.Node, e.Op, e.Reason)
}

// Unwrap returns the reason.
func (e *NodeError) Unwrap() error { return e.Reason }

// An ImportError lists all nodes of a model that are not imported, in the order of the file. It
// wraps each reason.
type ImportError struct {
	File  string // "" if the model was not read from a file
	Nodes []*NodeError
}

// mostListed limits the nodes that the text of an ImportError lists.
const mostListed = 20

// Error lists the nodes, one a line.
func (e *ImportError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	fmt.Fprintf(&b, "%d nodes are not imported:", len(e.Nodes))
	for i, n := range e.Nodes {
		if i == mostListed {
			fmt.Fprintf(&b, "\n\tand %d more", len(e.Nodes)-i)
			break
		}
		fmt.Fprintf(&b, "\n\t%v", n)
	}
	return b.String()
}

// Unwrap returns the nodes.
func (e *ImportError) Unwrap() []error {
	errs := make([]error, len(e.Nodes))
	for i, n := range e.Nodes {
		errs[i] = n
	}
	return errs
}

// A refusal is the panic of a rule that cannot import its node. It does not leave the package.
type refusal struct{ err error }

// refuse ends a rule: the node is not supported.
func refuse(format string, args ...any) {
	panic(refusal{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kernels.ErrUnsupported)})
}

// mismatch ends a rule: the shapes of operands do not fit.
func mismatch(format string, args ...any) {
	panic(refusal{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kernels.ErrShape)})
}

// badAttribute ends a rule: an attribute or a constant operand has a value that no operands fit.
func badAttribute(format string, args ...any) {
	panic(refusal{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kernels.ErrAttrs)})
}

// ensure ends a rule by an error, if there is one.
func ensure(err error) {
	if err != nil {
		panic(refusal{err})
	}
}

// catch stores the refusal that ends a rule.
func catch(err *error) {
	if p := recover(); p != nil {
		r, ok := p.(refusal)
		if !ok {
			panic(p)
		}
		*err = r.err
	}
}
