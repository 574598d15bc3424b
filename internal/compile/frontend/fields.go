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

// errVersion is wrapped when Gorgonia's types are not laid out as in the version that the compiler was written for.
var errVersion = errors.New("gorgonia is not the version that go.mod asks for")

// fields reads the unexported fields of a Gorgonia op. It implements kernels.Fields.
type fields struct{ op gorgonia.Op }

// find follows the dots of name through structs, pointers and interfaces.
func (f fields) find(name string) (reflect.Value, error) {
	v := reflect.ValueOf(f.op)
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

// wrong is the error about a field of another kind than want.
func (f fields) wrong(name, want string, v reflect.Value) error {
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
	return 0, f.wrong(name, "an integer", v)
}

// Float returns a floating-point field.
func (f fields) Float(name string) (float64, error) {
	v, err := f.find(name)
	if err != nil {
		return 0, err
	}
	if !v.CanFloat() {
		return 0, f.wrong(name, "a float", v)
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
		return false, f.wrong(name, "a bool", v)
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
		return nil, f.wrong(name, "a slice of integers", v)
	}
	s := make([]int, v.Len())
	for i := range s {
		s[i] = int(v.Index(i).Int())
	}
	return s, nil
}

// opKey returns what kernels.ByGorgonia is asked for: the Go type of op, and the operator's name where one type stands
// for several operations.
func opKey(op gorgonia.Op) string {
	key := fmt.Sprintf("%T", op)
	switch key {
	case "gorgonia.elemBinOp": // prints its operator and retSame
		name, _, _ := strings.Cut(op.String(), " ")
		return key + ":" + name
	case "gorgonia.elemUnaryOp":
		return key + ":" + op.String()
	}
	return key
}

// children returns the operands of n. They are read from the node: the graph's own look-ups go stale when Gorgonia
// removes nodes.
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

// sliceOf returns the range that a slicing op cuts, nil for everything.
func sliceOf(op gorgonia.Op) (s tensor.Slice, ok bool) {
	sl, ok := op.(interface{ IsSlice() tensor.Slice })
	if !ok {
		return nil, false
	}
	return sl.IsSlice(), true
}

// valueOf returns what a constant op holds, nil for other ops.
func valueOf(op gorgonia.Op) gorgonia.Value {
	if c, ok := op.(interface{ Value() gorgonia.Value }); ok && strings.HasPrefix(fmt.Sprintf("%T", op), "gorgonia.constant") {
		return c.Value()
	}
	return nil
}

// readTarget returns where gorgonia.Read wants the value of n's only operand, and false for nodes of other ops.
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
