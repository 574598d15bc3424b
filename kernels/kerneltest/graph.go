package kerneltest

import (
	"fmt"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/kernels"
)

// Graph computes what is applied at once, by the references of the operations: a kernels.Graph that has values.
// Its zero value is empty and ready.
type Graph struct {
	tensors []kernels.Tensor
}

var _ kernels.Graph = (*Graph)(nil)

// Input adds a tensor. The graph keeps x.Data, and does not change it.
func (g *Graph) Input(x kernels.Tensor) kernels.Value {
	g.tensors = append(g.tensors, x)
	return kernels.Value(len(g.tensors) - 1)
}

// Apply computes a use of op and returns its first output. It panics with an error where specs do not fit.
func (g *Graph) Apply(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return g.Node(op, attrs, in...).Out[0]
}

// Node computes a use of op and returns it with all its outputs. It panics with an error where specs do not fit.
func (g *Graph) Node(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Node {
	operands := make([]kernels.Tensor, len(in))
	for i, v := range in {
		operands[i] = g.Tensor(v)
	}
	out, err := Eval(op, attrs, operands)
	if err != nil {
		panic(err)
	}
	n := kernels.Node{Op: op, Attrs: attrs, In: in}
	for _, t := range out {
		n.Out = append(n.Out, g.Input(t))
	}
	return n
}

// Spec returns the type and shape of v.
func (g *Graph) Spec(v kernels.Value) kernels.Spec { return g.Tensor(v).Spec }

// Tensor returns v with its elements.
func (g *Graph) Tensor(v kernels.Value) kernels.Tensor {
	if v < 0 || int(v) >= len(g.tensors) {
		panic(fmt.Errorf("value %d is not in the graph", v))
	}
	return g.tensors[v]
}

// Eval computes op by its reference, in float64 whatever the types.
func Eval(op *kernels.Op, attrs any, in []kernels.Tensor) ([]kernels.Tensor, error) {
	s := make([]kernels.Spec, len(in))
	for i, x := range in {
		s[i] = x.Spec
	}
	specs, err := op.Infer(attrs, s)
	if err != nil {
		return nil, err
	}
	out := make([]kernels.Tensor, len(specs))
	for i, s := range specs {
		out[i] = kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
	}
	op.Ref(attrs, in, out)
	return out, nil
}

// Fill returns the operands of a case, with values as their types hold them.
func Fill(r *rand.Rand, c kernels.Case) []kernels.Tensor {
	in := make([]kernels.Tensor, len(c.In))
	for k, s := range c.In {
		data := make([]float64, s.Shape.Elems())
		switch {
		case c.Fill != nil:
			c.Fill(r, k, data)
		case s.Type.Float():
			for i := range data {
				data[i] = r.NormFloat64()
			}
		}
		in[k] = kernels.Tensor{Spec: s, Data: data}
		round(in[k])
	}
	return in
}

// round brings the elements of x to what its type holds.
func round(x kernels.Tensor) {
	b := make([]byte, x.Bytes())
	kernels.Store(b, x.Type, x.Data)
	kernels.Load(x.Data, x.Type, b)
}
