package frontend

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// A fallback is a kernels.Host instruction: after the device has finished the operands, the host
// runs Gorgonia's code on them. Its attribute is a gorgoniaOp.

// gorgoniaOp runs an op of Gorgonia's on operands in memory of the program. It is the attribute of
// a kernels.Host instruction.
type gorgoniaOp struct {
	op         gorgonia.Op
	name       string // of the node
	in         []nodeType
	out        nodeType
	spec       kernels.Spec // of the output
	extraInput bool         // the last operand is there only to make the instruction wait for its maker
}

// nodeType is the type and shape of a node in Gorgonia's terms.
type nodeType struct {
	dtype tensor.Dtype
	shape tensor.Shape // empty for a scalar
}

// nodeTypeOf returns the type and shape of n.
func nodeTypeOf(n *gorgonia.Node) nodeType { return nodeType{n.Dtype(), n.Shape()} }

// fallback returns the rule of an op without a kernel: a kernels.Host instruction runs Gorgonia's
// code.
func (r *reader) fallback(n *gorgonia.Node) (*rule, error) {
	op, in := n.Op(), children(n)
	t, err := r.storageType(n)
	if err != nil {
		return nil, err
	}
	f := &gorgoniaOp{op: op, name: n.Name(), out: nodeTypeOf(n), spec: kernels.Spec{Type: t, Shape: shapeOf(n)}}
	for _, x := range in {
		f.in = append(f.in, nodeTypeOf(x))
	}
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
		v = slices.Clone(v)
		for i, x := range v { // Gorgonia's code reads integers in the type of the graph
			if t, err := dtypeOf(f.in[i].dtype); err == nil && !t.Float() && !r.Spec(x).Type.Float() {
				v[i] = r.asInteger(x, t)
			}
		}
		return r.callHost(f, v...), nil
	}}, nil
}

// callHost appends an instruction that runs f.
func (r *reader) callHost(f *gorgoniaOp, in ...kernels.Value) kernels.Value {
	// In the graph of a gradient the forward op must have run, even if its result is not an operand.
	if f.extraInput = r.runAfter != kernels.None && !slices.Contains(in, r.runAfter); f.extraInput {
		in = append(slices.Clone(in), r.runAfter)
	}
	mark := r.Mark
	r.Mark = ir.FallbackMark
	defer func() { r.Mark = mark }()
	return r.Apply(kernels.Host, f, in...)
}

// storageType returns the type in which n's elements are stored. The bools of a comparison of
// floats are stored as 1 and 0 in the type of the floats; other bools as bytes.
func (r *reader) storageType(n *gorgonia.Node) (arena.DType, error) {
	for n.Dtype() == tensor.Bool { // a comparison may compare comparisons
		if !strings.HasPrefix(opKeyOf(n), "gorgonia.elemBinOp") {
			return arena.Uint8, nil
		}
		n = children(n)[0]
		if t, err := dtypeOf(n.Dtype()); err == nil && !t.Float() {
			return arena.Uint8, nil
		}
	}
	return dtypeOf(n.Dtype())
}

// opKeyOf returns the key of n's op, empty for an input.
func opKeyOf(n *gorgonia.Node) string {
	if n.Op() == nil {
		return ""
	}
	return opKey(n.Op())
}

// Infer returns the spec of the output, which Gorgonia inferred when the graph was built.
func (f *gorgoniaOp) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	if f.extraInput {
		in = in[:len(in)-1]
	}
	if len(in) != len(f.in) {
		return nil, fmt.Errorf("%q reads %d operands, not %d: %w", f.name, len(f.in), len(in), kernels.ErrShape)
	}
	for i, s := range in {
		if want, err := dtypeOf(f.in[i].dtype); err == nil && want != s.Type {
			return nil, fmt.Errorf("operand %d of %q is %v, but Gorgonia's code reads %v: store it as %v: %w",
				i, f.name, s.Type, want, want, kernels.ErrShape)
		}
		if want := s.Shape.Elems(); want != f.in[i].shape.TotalSize() && len(f.in[i].shape) > 0 {
			return nil, fmt.Errorf("operand %d of %q is %v, not %v: %w", i, f.name, s, f.in[i].shape, kernels.ErrShape)
		}
	}
	return []kernels.Spec{f.spec}, nil
}

// String names the op for plans.
func (f *gorgoniaOp) String() string { return f.op.String() }

// Run computes out[0] from in. A panic of the op becomes an error.
func (f *gorgoniaOp) Run(in, out [][]byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("node %q: Gorgonia's %v: %w", f.name, f.op, err)
		}
	}()
	// The operands share the program's memory: Gorgonia reads them in place.
	values := make([]gorgonia.Value, len(f.in))
	for i, d := range f.in {
		values[i] = d.wrap(in[i])
	}
	v, err := f.op.Do(values...) // allocates its result
	if err != nil {
		return err
	}
	if v == nil {
		return fmt.Errorf("no result: %w", kernels.ErrUnsupported)
	}
	return store(out[0], f.spec.Type, v)
}

// differentiable reports whether Gorgonia defines a symbolic gradient of the op.
func (f *gorgoniaOp) differentiable() bool {
	_, ok := f.op.(gorgonia.SDOp)
	return ok
}

// HostGrad appends the gradients of the operands of n, a kernels.Host instruction, and returns
// them: None for operands without one. dy is the gradient of its result. Gorgonia differentiates
// the op symbolically in a small graph; the nodes that it makes for dx are then lowered like any
// other, with the values of x, y and dy.
//
//	x ─► op ─► y,   dy
//	SymDiff(x, y, dy) ─► dx
func (g *Graph) HostGrad(n kernels.Node, dy []kernels.Value) (grads []kernels.Value, err error) {
	if f, ok := n.Attrs.(*hostFunc); ok && f.grad != nil {
		return f.grad(g, n, dy[0]), nil
	}
	f, ok := n.Attrs.(*gorgoniaOp)
	if !ok || !f.differentiable() {
		return nil, fmt.Errorf("%s %v has no gradient: %w", n.Op.Name, n.Attrs, kernels.ErrUnsupported)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, kernels.ErrUnsupported)
		}
		if err != nil {
			err = fmt.Errorf("gradient of node %q (%v): %w", f.name, f.op, err)
		}
	}()
	r := &reader{Graph: g, label: f.name, runAfter: n.Out[0], values: make(map[*gorgonia.Node]kernels.Value),
		readInput: func(n *gorgonia.Node) (kernels.Value, error) {
			return kernels.None, fmt.Errorf("its gradient needs %q: %w", n.Name(), kernels.ErrUnsupported)
		}}
	small := gorgonia.NewGraph()
	in := make(gorgonia.Nodes, len(f.in))
	for i, d := range f.in {
		in[i] = d.node(small, fmt.Sprintf("%s/in%d", f.name, i))
		r.values[in[i]] = n.In[i]
	}
	// y stands for the result that the program has already: SymDiff may read it.
	y, err := gorgonia.ApplyOp(f.op, in...)
	if err != nil {
		return nil, err
	}
	dyNode := f.out.node(small, f.name+"/dy")
	r.values[y], r.values[dyNode] = n.Out[0], dy[0]
	op := f.op.(gorgonia.SDOp)
	wanted := op.DiffWRT(len(in))
	roots, err := op.SymDiff(in, y, dyNode)
	if err != nil {
		return nil, err
	}
	// SymDiff may return nodes for operands that have no gradient.
	for i := range roots {
		if i >= len(in) || i < len(wanted) && !wanted[i] {
			roots[i] = nil
		}
	}
	// Operands, y and dy have values: only the nodes of the gradient are lowered.
	label, owner := g.Label, g.Owner
	r.read(roots)
	g.Label, g.Owner = label, owner
	if len(r.errs) > 0 {
		return nil, r.errs[0]
	}
	return r.rootsAs(n.In, roots), nil
}

// rootsAs returns the values of the roots, each in the shape of its operand; None where a root is
// nil.
func (r *reader) rootsAs(in []kernels.Value, roots gorgonia.Nodes) []kernels.Value {
	grads := make([]kernels.Value, len(in))
	for i, v := range in {
		grads[i] = kernels.None
		if i < len(roots) && roots[i] != nil {
			grads[i] = r.reshape(r.values[roots[i]], r.Spec(v).Shape)
		}
	}
	return grads
}

// node adds an input of type d to g.
func (d nodeType) node(g *gorgonia.ExprGraph, name string) *gorgonia.Node {
	if len(d.shape) == 0 {
		return gorgonia.NewScalar(g, d.dtype, gorgonia.WithName(name))
	}
	return gorgonia.NewTensor(g, d.dtype, len(d.shape), gorgonia.WithShape(d.shape...), gorgonia.WithName(name))
}
