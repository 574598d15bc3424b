package frontend

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/ir"
)

// errVersion is wrapped by errors about types of Gorgonia that differ from those of the version in
// go.mod.
var errVersion = errors.New("gorgonia is not the version in go.mod")

// fields reads the unexported fields of an op, which hold its attributes. It implements
// kernels.Fields.
type fields struct{ op gorgonia.Op }

// find returns a field of the op. A name with dots, "a.b", follows fields, pointers and interfaces.
func (f fields) find(name string) (reflect.Value, error) {
	v := reflect.ValueOf(f.op)
	// An invalid value has kind Invalid: a missing field ends the loop with an error.
	for part := range strings.SplitSeq(name, ".") {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			v = v.FieldByName(part)
		} else {
			v = reflect.Value{}
		}
		if !v.IsValid() {
			return v, fmt.Errorf("%T has no field %q: %w", f.op, name, errVersion)
		}
	}
	return v, nil
}

// kindError returns the error of a field that is not of the wanted kind.
func (f fields) kindError(name, want string, v reflect.Value) error {
	return fmt.Errorf("field %q of %T is %v, not %s: %w", name, f.op, v.Type(), want, errVersion)
}

// Int returns an integer field of any size.
func (f fields) Int(name string) (int, error) {
	v, err := f.find(name)
	switch {
	case err != nil:
		return 0, err
	case v.CanInt():
		return int(v.Int()), nil
	case v.CanUint():
		return int(v.Uint()), nil
	}
	return 0, f.kindError(name, "an integer", v)
}

// Float returns a floating-point field.
func (f fields) Float(name string) (float64, error) {
	v, err := f.find(name)
	if err != nil {
		return 0, err
	}
	if !v.CanFloat() {
		return 0, f.kindError(name, "a float", v)
	}
	return v.Float(), nil
}

// Bool returns a boolean field.
func (f fields) Bool(name string) (bool, error) {
	v, err := f.find(name)
	if err != nil {
		return false, err
	}
	if v.Kind() != reflect.Bool {
		return false, f.kindError(name, "a bool", v)
	}
	return v.Bool(), nil
}

// Ints returns a copy of a field that is a slice of integers.
func (f fields) Ints(name string) ([]int, error) {
	v, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Int {
		return nil, f.kindError(name, "a slice of integers", v)
	}
	s := make([]int, v.Len())
	for i := range s {
		s[i] = int(v.Index(i).Int())
	}
	return s, nil
}

// opKey returns the key of op in kernels.ByGorgonia and in patterns: its Go type, and after a colon
// the operator's name where one type has several operators, as in "gorgonia.elemBinOp:+".
func opKey(op gorgonia.Op) string {
	key := reflect.TypeOf(op).String()
	switch key {
	case "gorgonia.elemBinOp": // prints its operator and retSame
		name, _, _ := strings.Cut(op.String(), " ")
		return key + ":" + name
	case "gorgonia.elemUnaryOp":
		return key + ":" + op.String()
	}
	return key
}

// children returns the operands of n. They are read from the node: the edges that the graph holds
// are wrong after Gorgonia has removed a node.
func children(n *gorgonia.Node) gorgonia.Nodes {
	f := reflect.ValueOf(n).Elem().FieldByName("children")
	if f.Kind() != reflect.Slice {
		panic(ir.BuildError{Err: fmt.Errorf("a node has no children: %w", errVersion)})
	}
	ns := make(gorgonia.Nodes, f.Len())
	for i := range ns {
		ns[i] = (*gorgonia.Node)(f.Index(i).UnsafePointer())
	}
	return ns
}

// sliceOf returns the range that a slicing op selects, nil for all; ok is false for other ops.
func sliceOf(op gorgonia.Op) (s tensor.Slice, ok bool) {
	sl, ok := op.(interface{ IsSlice() tensor.Slice })
	if !ok {
		return nil, false
	}
	return sl.IsSlice(), true
}

// valueOf returns the value of a constant op, of Gorgonia or of package layers, nil for other ops. A
// scalar of package layers stands for all elements of its node, of any shape.
func valueOf(op gorgonia.Op) gorgonia.Value {
	if c, ok := op.(interface{ Constant() gorgonia.Value }); ok {
		return c.Constant()
	}
	c, ok := op.(interface{ Value() gorgonia.Value })
	if ok && isGorgoniaConstant(op) {
		return c.Value()
	}
	return nil
}

// isGorgoniaConstant reports whether op is that of gorgonia.NewConstant.
func isGorgoniaConstant(op gorgonia.Op) bool {
	return strings.HasPrefix(reflect.TypeOf(op).String(), "gorgonia.constant")
}

// readTarget returns the variable that gorgonia.Read made n to fill with the value of its operand;
// ok is false for nodes of other ops.
func readTarget(n *gorgonia.Node) (into *gorgonia.Value, ok bool) {
	if n.Op() == nil || opKey(n.Op()) != "gorgonia.readOp" {
		return nil, false
	}
	v, err := fields{n.Op()}.find("into")
	if err != nil || v.Kind() != reflect.Pointer {
		return nil, false
	}
	return (*gorgonia.Value)(v.UnsafePointer()), true
}
