package kernels

import "fmt"

// Eager is a Graph that computes each operation at once, by its reference. The zero value is an
// empty graph. It is not safe for use by several goroutines.
type Eager struct {
	tensors []Tensor
}

var _ Graph = (*Eager)(nil)

// Input adds a tensor. The graph keeps x.Data, and does not change it.
func (g *Eager) Input(x Tensor) Value {
	g.tensors = append(g.tensors, x)
	return Value(len(g.tensors) - 1)
}

// Apply computes a use of op and returns its first output. It panics with an error where specs do
// not fit.
func (g *Eager) Apply(op *Op, attrs any, in ...Value) Value {
	return g.Node(op, attrs, in...).Out[0]
}

// ApplyAll computes a use of op and returns its outputs. It panics with an error where specs do not
// fit.
func (g *Eager) ApplyAll(op *Op, attrs any, in ...Value) []Value {
	return g.Node(op, attrs, in...).Out
}

// Node computes a use of op and returns it with all its outputs. It panics with an error where
// specs do not fit.
func (g *Eager) Node(op *Op, attrs any, in ...Value) Node {
	operands := make([]Tensor, len(in))
	for i, v := range in {
		operands[i] = g.Tensor(v)
	}
	out, err := Eval(op, attrs, operands)
	if err != nil {
		panic(err)
	}
	n := Node{Op: op, Attrs: attrs, In: in}
	for _, t := range out {
		n.Out = append(n.Out, g.Input(t))
	}
	return n
}

// Spec returns the type and shape of v.
func (g *Eager) Spec(v Value) Spec { return g.Tensor(v).Spec }

// Tensor returns v with its elements.
func (g *Eager) Tensor(v Value) Tensor {
	if v < 0 || int(v) >= len(g.tensors) {
		panic(fmt.Errorf("value %d is not in the graph", v))
	}
	return g.tensors[v]
}

// Eval computes op by its reference, in float64 whatever the types of the operands, and returns the
// outputs.
func Eval(op *Op, attrs any, in []Tensor) ([]Tensor, error) {
	s := make([]Spec, len(in))
	for i, x := range in {
		s[i] = x.Spec
	}
	specs, err := op.Infer(attrs, s)
	if err != nil {
		return nil, err
	}
	out := make([]Tensor, len(specs))
	for i, s := range specs {
		out[i] = Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
	}
	op.Ref(attrs, in, out)
	return out, nil
}
