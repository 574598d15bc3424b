package layers

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// formula computes a value from the operands x by operations of package kernels. It may read the
// shapes of its operands, and must not depend on anything else.
type formula func(g kernels.Graph, x []kernels.Value) kernels.Value

// composed is a formula as one node of a Gorgonia graph. The compiler appends the operations of the
// formula; Gorgonia's own machines run their reference implementations in float64. The gradient
// follows from the gradient rules of the operations.
type composed struct {
	kernel
	f formula
}

// Compose appends the operations that compute the node from its children.
func (c *composed) Compose(g kernels.Graph, in []kernels.Value) kernels.Value { return c.f(g, in) }

// compose adds the node of an operation that f computes. An empty name is replaced by what and a
// number. If the shapes do not fit, it records the error of the operation that they do not fit.
func (n *Net) compose(what, name string, f formula, in ...*gorgonia.Node) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	layer := operation(what, name, in[0])
	c := &composed{kernel: kernel{base: base{name: what}, of: in[0].Dtype()}, f: f}
	specs := make([]kernels.Spec, len(in))
	for i, x := range in {
		specs[i] = kernels.Spec{Type: storage[x.Dtype()], Shape: kernels.Shape(x.Shape())}
		c.types = append(c.types, specs[i].Type)
		c.signature = append(c.signature, x.Type())
	}
	out, err := sketch(f, specs)
	if err != nil {
		n.fail(fmt.Errorf("%s over input %s: %w", layer, shapeString(in[0].Shape()), err))
		return nil
	}
	label := n.nameOf(what, name)
	c.id = n.id(len(in))
	c.signature = append(c.signature, typeOf(len(out.Shape), c.of))
	y, err := gorgonia.ApplyOp(c, in...)
	return n.keepOrLabel(layer, name, label, y, err)
}

// InferShape returns the shape of the formula's result.
func (c *composed) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	specs, err := c.specs(in)
	if err != nil {
		return nil, err
	}
	out, err := sketch(c.f, specs)
	return tensor.Shape(out.Shape), err
}

// Do evaluates the formula.
func (c *composed) Do(in ...gorgonia.Value) (v gorgonia.Value, err error) {
	if err := c.check(in); err != nil {
		return nil, err
	}
	x, err := c.operands(in)
	if err != nil {
		return nil, err
	}
	defer recoverShape(c.name, &err)
	g := &kernels.Eager{}
	y := g.Tensor(c.f(g, inputs(g, x)))
	// y may be an operand itself, and Gorgonia computes in place.
	return result(c.of, slices.Clone(y.Data), y.Shape...), nil
}

// DiffWRT reports a gradient for each operand of floats.
func (c *composed) DiffWRT(int) []bool {
	d := make([]bool, len(c.types))
	for i, t := range c.types {
		d[i] = t.Float()
	}
	return d
}

// SymDiff adds a node for the gradient of each operand.
func (c *composed) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	return c.gradients(in, dy, c.DiffWRT(len(in)), c.gradient)
}

// gradient evaluates the formula and differentiates it in reverse.
func (c *composed) gradient(x []kernels.Tensor, dy kernels.Tensor, wrt int) (d []float64, err error) {
	defer recoverShape(c.name, &err)
	g := &recorder{}
	in := inputs(&g.Eager, x)
	y := c.f(g, in)
	dy.Shape = g.Spec(y).Shape // Gorgonia does not distinguish a vector from a matrix of one column
	variable := g.variable(in[wrt])
	if !variable[y] {
		return make([]float64, len(x[wrt].Data)), nil
	}
	grads := map[kernels.Value]kernels.Value{y: g.Input(dy)}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		node := g.nodes[i]
		out, reached := make([]kernels.Value, len(node.Out)), false
		for k, v := range node.Out {
			dv, ok := grads[v]
			if out[k] = kernels.None; ok {
				out[k], reached = dv, true
			}
		}
		if !reached {
			continue
		}
		for k, dv := range node.Op.Grad(&g.Eager, node, out) {
			if dv == kernels.None || !variable[node.In[k]] {
				continue
			}
			if sum, ok := grads[node.In[k]]; ok {
				dv = g.Eager.Apply(kernels.Add, nil, sum, dv)
			}
			grads[node.In[k]] = dv
		}
	}
	if dx, ok := grads[in[wrt]]; ok {
		return g.Tensor(dx).Data, nil
	}
	return make([]float64, len(x[wrt].Data)), nil
}

// recorder is a graph that computes each operation at once and keeps it.
type recorder struct {
	kernels.Eager
	nodes []kernels.Node
}

// variable returns the values that depend on x: x itself, and results of operations that have a
// gradient.
func (r *recorder) variable(x kernels.Value) map[kernels.Value]bool {
	v := map[kernels.Value]bool{x: true}
	for _, node := range r.nodes {
		if node.Op.Grad != nil && slices.ContainsFunc(node.In, func(in kernels.Value) bool { return v[in] }) {
			for _, out := range node.Out {
				v[out] = true
			}
		}
	}
	return v
}

// Apply computes a use of op and returns its first output.
func (r *recorder) Apply(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return r.ApplyAll(op, attrs, in...)[0]
}

// ApplyAll computes a use of op and returns its outputs.
func (r *recorder) ApplyAll(op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	node := r.Node(op, attrs, in...)
	r.nodes = append(r.nodes, node)
	return node.Out
}

// shapes is a graph that computes only types and shapes.
type shapes []kernels.Spec

// Apply returns the first output of a use of op. It panics with an error where specs do not fit.
func (s *shapes) Apply(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return s.ApplyAll(op, attrs, in...)[0]
}

// ApplyAll returns the outputs of a use of op. It panics with an error where specs do not fit.
func (s *shapes) ApplyAll(op *kernels.Op, attrs any, in ...kernels.Value) (out []kernels.Value) {
	specs := make([]kernels.Spec, len(in))
	for i, v := range in {
		specs[i] = s.Spec(v)
	}
	outs, err := op.Infer(attrs, specs)
	if err != nil {
		panic(err)
	}
	for _, o := range outs {
		if err := o.Check(); err != nil {
			panic(err)
		}
		out = append(out, s.add(o))
	}
	return out
}

// Spec returns the type and shape of v.
func (s *shapes) Spec(v kernels.Value) kernels.Spec { return (*s)[v] }

func (s *shapes) add(spec kernels.Spec) kernels.Value {
	*s = append(*s, spec)
	return kernels.Value(len(*s) - 1)
}

// sketch returns the spec of the result of f over operands of the given specs.
func sketch(f formula, in []kernels.Spec) (out kernels.Spec, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(error)
			if !ok || !errors.Is(e, kernels.ErrShape) && !errors.Is(e, kernels.ErrAttrs) {
				panic(p) // a bug of f
			}
			err = e
		}
	}()
	var s shapes
	x := make([]kernels.Value, len(in))
	for i, spec := range in {
		x[i] = s.add(spec)
	}
	return s.Spec(f(&s, x)), nil
}

// inputs adds tensors to g.
func inputs(g *kernels.Eager, x []kernels.Tensor) []kernels.Value {
	v := make([]kernels.Value, len(x))
	for i, t := range x {
		v[i] = g.Input(t)
	}
	return v
}

// recoverShape stores the error with which a kernels.Graph panicked.
func recoverShape(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: %v: %w", what, p, ErrShape)
	}
}
