package compile

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// fallbackMark is how a plan points out instructions that run Gorgonia's code.
const fallbackMark = "fallback, allocates"

// foreign runs an operation of Gorgonia's on operands in memory of ours. It is what kernels.Host takes as attributes.
type foreign struct {
	op    gorgonia.Op
	name  string // of the node
	in    []declared
	out   declared
	spec  kernels.Spec // of the output
	reuse bool         // the op can compute into given memory
	waits bool         // the last operand is not read: it was made by an op that left something behind for this one
	axis  int          // along which operand 1 holds indices into operand 0; -1: it does not
}

// declared is an operand as Gorgonia knows it.
type declared struct {
	dtype tensor.Dtype
	shape tensor.Shape // none for a scalar
}

func declare(n *gorgonia.Node) declared { return declared{n.Dtype(), n.Shape()} }

// reusable are the ops whose UsePreallocDo overwrites all of the memory that it is given. The others ignore it, return other
// memory, or expect something to be there.
var reusable = map[string]bool{
	"gorgonia.im2colOp": true,
	"gorgonia.col2imOp": true,
}

// fallback is the rule of an op that we have no kernel for: the host runs Gorgonia's code on it.
func (r *reader) fallback(n *gorgonia.Node) (*rule, error) {
	op, in := n.Op(), children(n)
	key := fmt.Sprintf("%T", op)
	t, err := r.storage(n)
	if err != nil {
		return nil, err
	}
	f := &foreign{op: op, name: n.Name(), out: declare(n), spec: kernels.Spec{Type: t, Shape: shapeOf(n)}, reuse: reusable[key], axis: -1}
	for _, x := range in {
		f.in = append(f.in, declare(x))
	}
	if key == "*gorgonia.byIndicesOp" {
		if f.axis, err = (fields{op}).Int("axis"); err != nil {
			return nil, err
		}
	}
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) { return r.host(f, v...), nil }}, nil
}

// host adds an instruction that runs f.
func (r *reader) host(f *foreign, in ...kernels.Value) kernels.Value {
	if f.waits = r.after != kernels.None && !slices.Contains(in, r.after); f.waits {
		in = append(slices.Clone(in), r.after)
	}
	mark := r.Mark
	r.Mark = fallbackMark
	defer func() { r.Mark = mark }()
	return r.Apply(kernels.Host, f, in...)
}

// storage returns the type in which n's elements are stored. What a comparison finds is stored as 1 or 0 in the type of what
// it compares; other bools as bytes.
func (r *reader) storage(n *gorgonia.Node) (arena.DType, error) {
	for n.Dtype() == tensor.Bool {
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

func opKeyOf(n *gorgonia.Node) string {
	if n.Op() == nil {
		return ""
	}
	return opKey(n.Op())
}

// Infer returns the spec of the output, which Gorgonia inferred when the graph was built.
func (f *foreign) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	if f.waits {
		in = in[:len(in)-1]
	}
	if len(in) != len(f.in) {
		return nil, fmt.Errorf("%q takes %d operands, not %d: %w", f.name, len(f.in), len(in), kernels.ErrShape)
	}
	for i, s := range in {
		if want, err := dtypeOf(f.in[i].dtype); err == nil && want != s.Type {
			return nil, fmt.Errorf("operand %d of %q is %v, Gorgonia's code takes %v: store it so: %w", i, f.name, s.Type, want, kernels.ErrShape)
		}
		if want := s.Shape.Elems(); want != f.in[i].shape.TotalSize() && len(f.in[i].shape) > 0 {
			return nil, fmt.Errorf("operand %d of %q is %v, not %v: %w", i, f.name, s, f.in[i].shape, kernels.ErrShape)
		}
	}
	return []kernels.Spec{f.spec}, nil
}

// String names the op for plans.
func (f *foreign) String() string { return f.op.String() }

// Run computes out[0] from in. What the op panics with becomes an error.
func (f *foreign) Run(in, out [][]byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("node %q: Gorgonia's %v: %w", f.name, f.op, err)
		}
	}()
	values := make([]gorgonia.Value, len(f.in))
	for i, d := range f.in {
		values[i] = d.wrap(in[i])
	}
	if f.axis >= 0 {
		if err := inside(values[1], f.in[0].shape[f.axis]); err != nil {
			return err
		}
	}
	if f.reuse {
		_, err = f.op.(gorgonia.UsePreallocDoer).UsePreallocDo(f.out.wrap(out[0]), values...)
		return err
	}
	v, err := f.op.Do(values...)
	if err != nil {
		return err
	}
	if v == nil {
		return fmt.Errorf("no result: %w", ErrUnsupported)
	}
	return store(out[0], f.spec.Type, v)
}

// inside checks indices, which Gorgonia does not.
func inside(indices gorgonia.Value, n int) error {
	xs, _ := indices.Data().([]int)
	for i, x := range xs {
		if x < 0 || x >= n {
			return fmt.Errorf("index %d at %d is not in 0..%d", x, i, n-1)
		}
	}
	return nil
}

// differentiable reports whether a gradient of the fallback can be built.
func (f *foreign) differentiable() bool {
	_, ok := f.op.(gorgonia.SDOp)
	return ok
}

// fallbackGrad builds the gradients of a fallback's operands as Gorgonia defines them: symbolically, in a small graph of
// its own, which is then read like any other. Operands that have none get None.
func (c *compiler) fallbackGrad(n kernels.Node, dy []kernels.Value) (grads []kernels.Value, err error) {
	f, ok := n.Attrs.(*foreign)
	if !ok || !f.differentiable() {
		return nil, fmt.Errorf("%s %v has no gradient: %w", n.Op.Name, n.Attrs, ErrUnsupported)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, ErrUnsupported)
		}
		if err != nil {
			err = fmt.Errorf("gradient of node %q (%v): %w", f.name, f.op, err)
		}
	}()
	r := &reader{compiler: c, of: f.name, after: n.Out[0], values: make(map[*gorgonia.Node]kernels.Value), leaf: func(n *gorgonia.Node) (kernels.Value, error) {
		return kernels.None, fmt.Errorf("its gradient needs %q: %w", n.Name(), ErrUnsupported)
	}}
	g := gorgonia.NewGraph()
	in := make(gorgonia.Nodes, len(f.in))
	for i, d := range f.in {
		in[i] = d.node(g, fmt.Sprintf("%s/in%d", f.name, i))
		r.values[in[i]] = n.In[i]
	}
	y, err := gorgonia.ApplyOp(f.op, in...)
	if err != nil {
		return nil, err
	}
	d := f.out.node(g, f.name+"/dy")
	r.values[y], r.values[d] = n.Out[0], dy[0]
	sd := f.op.(gorgonia.SDOp)
	with := sd.DiffWRT(len(in))
	roots, err := sd.SymDiff(in, y, d)
	if err != nil {
		return nil, err
	}
	for i := range roots {
		if i >= len(in) || i < len(with) && !with[i] {
			roots[i] = nil
		}
	}
	label, owner := c.Label, c.Owner
	r.read(roots)
	c.Label, c.Owner = label, owner
	if len(r.errs) > 0 {
		return nil, r.errs[0]
	}
	return r.gradients(n.In, roots), nil
}

// gradients returns what became of the roots, in the shapes of the operands that they are the gradients of.
func (r *reader) gradients(in []kernels.Value, roots gorgonia.Nodes) []kernels.Value {
	grads := make([]kernels.Value, len(in))
	for i, v := range in {
		grads[i] = kernels.None
		if i < len(roots) && roots[i] != nil {
			grads[i] = r.reshape(r.values[roots[i]], r.Spec(v).Shape)
		}
	}
	return grads
}

// node adds an input like d to g.
func (d declared) node(g *gorgonia.ExprGraph, name string) *gorgonia.Node {
	if len(d.shape) == 0 {
		return gorgonia.NewScalar(g, d.dtype, gorgonia.WithName(name))
	}
	return gorgonia.NewTensor(g, d.dtype, len(d.shape), gorgonia.WithShape(d.shape...), gorgonia.WithName(name))
}
