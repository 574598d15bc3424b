// Package identity finds nodes that Gorgonia took for one although they differ.
//
// A Gorgonia graph merges a new node with an earlier one of the same 32-bit hash, if type, shape,
// number of children and the hash of the op agree too. The hashes of many ops leave parts out: that
// of a slice has its bounds modulo 256. Distinct nodes then become one, and the finished graph does
// not show that there were two. There are two ways to find them:
//
//   - [Suspects] reads a finished graph. It returns nodes that may stand for two: there is another
//     op with the same hash and shape, and the graph does not rule it out.
//   - [Watch] needs the function that built the graph. It runs the function again, on a graph that
//     merges nothing, and compares the nodes that the first graph has merged. It finds all of them,
//     and nothing else: also nodes whose 32-bit hashes are equal by chance.
//
// Inputs, and random nodes, are identified by their names alone; Watch does not find those. Nor
// does it where the function does not build the same graph each time.
package identity

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/gorgonia"
)

// Doubt is a node that stands, or may stand, for two.
type Doubt struct {
	Node string // name of the node in the graph
	What string // what was merged, or may have been
	Cure string // what to write instead
}

// String returns all in one sentence.
func (d Doubt) String() string { return fmt.Sprintf("%q %s: %s", d.Node, d.What, d.Cure) }

// errVersion is wrapped by errors about types of Gorgonia that differ from those of the version in
// go.mod.
var errVersion = errors.New("gorgonia is not the version in go.mod")

// field returns a pointer to an unexported field of the struct at p.
func field[T any](p any, name string) (*T, error) {
	f := reflect.ValueOf(p).Elem().FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("%T has no field %q of type %v: %w", p, name, reflect.TypeFor[T](), errVersion)
	}
	return (*T)(f.Addr().UnsafePointer()), nil
}

// Offsets of the fields of a gorgonia.Node that are read for each node.
var (
	idField, idErr             = offset[int64]("id")
	nameField, nameErr         = offset[string]("name")
	childrenField, childrenErr = offset[gorgonia.Nodes]("children")
)

// offset returns the offset of a field of gorgonia.Node.
func offset[T any](name string) (uintptr, error) {
	f, ok := reflect.TypeFor[gorgonia.Node]().FieldByName(name)
	if !ok || f.Type != reflect.TypeFor[T]() {
		return 0, fmt.Errorf("a node has no field %q of type %v: %w", name, reflect.TypeFor[T](), errVersion)
	}
	return f.Offset, nil
}

// checkVersion returns an error unless Gorgonia's nodes have the fields that this package reads.
func checkVersion() error { return errors.Join(idErr, nameErr, childrenErr) }

func idOf(n *gorgonia.Node) *int64 { return (*int64)(unsafe.Add(unsafe.Pointer(n), idField)) }

// givenName returns the name that the user, or NewConstant, gave to n. Node.Name makes one up where
// there is none.
func givenName(n *gorgonia.Node) string { return *(*string)(unsafe.Add(unsafe.Pointer(n), nameField)) }

// childrenOf returns the operands of n itself, not a copy. The edges that the graph holds are wrong
// after Gorgonia has removed a node.
func childrenOf(n *gorgonia.Node) gorgonia.Nodes {
	return *(*gorgonia.Nodes)(unsafe.Add(unsafe.Pointer(n), childrenField))
}

// typeName returns the Go type of n's op, empty for an input.
func typeName(n *gorgonia.Node) string {
	if n.Op() == nil {
		return ""
	}
	return reflect.TypeOf(n.Op()).String()
}

// valueOf returns the value of a constant, nil for other nodes.
func valueOf(n *gorgonia.Node) gorgonia.Value {
	if t := typeName(n); t != "gorgonia.constantScalar" && t != "gorgonia.constantTensor" {
		return nil
	}
	return n.Op().(interface{ Value() gorgonia.Value }).Value()
}

// isLeaf reports whether Gorgonia identifies n by its name alone: an input or a random node.
func isLeaf(n *gorgonia.Node) bool { return n.Op() == nil || typeName(n) == "gorgonia.randomOp" }

// isStatement reports whether n has no value, such as a node of gorgonia.Read.
func isStatement(n *gorgonia.Node) bool { return n.Type() == nil }
