package onnx

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// An inference computes the program of a model at one batch. It visits the nodes once, in the order
// of the file: what is known is folded, the rest becomes steps.
type inference struct {
	m       *Model
	batch   int
	limit   int // of folded elements
	folded  int // elements so far
	program *program
	values  map[string]*value
	params  map[string]kernels.Value // leaf of a parameter or statistic, by its name
	names   map[string]*initializer  // by name of the leaf
	twins   map[uint64]*initializer  // parameters, by a hash of their elements
	errs    []*NodeError
	counts  struct{ steps, folded int } // nodes
	notes   []string
}

// newInference returns an inference that knows no values yet.
func (m *Model) newInference(batch int) *inference {
	return &inference{
		m: m, batch: batch, limit: m.opt.FoldElements, program: newProgram(false),
		values: make(map[string]*value), params: make(map[string]kernels.Value), names: make(map[string]*initializer),
		twins: make(map[uint64]*initializer),
	}
}

// infer returns the program of m for a batch.
func (m *Model) infer(batch int) (*inference, error) {
	b := m.newInference(batch)
	for _, ini := range m.inits {
		v := ofTensor(ini.tensor)
		v.con.init = ini
		b.values[ini.name] = v
	}
	for i := range m.inputs {
		if err := b.input(i); err != nil {
			return nil, err
		}
	}
	for i := range m.graph.Nodes {
		b.visit(i, &m.graph.Nodes[i])
	}
	if b.errs != nil {
		return nil, &ImportError{File: m.file, Nodes: b.errs}
	}
	if err := b.outputs(); err != nil {
		return nil, err
	}
	return b, nil
}

// input adds an input of the model.
func (b *inference) input(i int) (err error) {
	in := b.m.inputs[i]
	shape, err := b.m.shapeOf(in, b.batch)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = b.m.errorf("input %q: %w", in.Name, err)
		}
	}()
	defer catch(&err)
	at := b.program.leaf(leaf{kind: inputLeaf, name: in.Name}, kernels.Spec{Type: storage(in.Type), Shape: shape})
	b.values[in.Name] = &value{typ: in.Type, shape: shape, at: at}
	return nil
}

// visit imports a node, or lists why not.
func (b *inference) visit(i int, n *proto.Node) {
	out, err := b.node(n)
	for k, name := range n.Outputs {
		if name == "" {
			continue
		}
		v := &value{blamed: true}
		switch {
		case err != nil:
		case k < len(out) && out[k] != nil:
			v = out[k]
		default:
			v = &value{missing: fmt.Sprintf("output %d of %s is not computed", k, n.Op)}
		}
		b.values[name] = v
	}
	if err != nil && err != errBlamed {
		b.errs = append(b.errs, &NodeError{Node: nameOf(n), Index: i, Op: operatorOf(n), Reason: err})
	}
}

// nameOf returns the name of a node, or that of its first output.
func nameOf(n *proto.Node) string {
	if n.Name == "" && len(n.Outputs) > 0 {
		return n.Outputs[0]
	}
	return n.Name
}

// operatorOf returns the operator of a node, with its domain if that is not ONNX's own.
func operatorOf(n *proto.Node) string {
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return n.Domain + "." + n.Op
	}
	return n.Op
}

// errBlamed: the node could be imported if the nodes before it could.
var errBlamed = fmt.Errorf("a node before it is in error")

// node returns the results of a node.
func (b *inference) node(n *proto.Node) ([]*value, error) {
	rule, err := b.rule(n)
	if err != nil {
		return nil, err
	}
	c := &call{program: b.program, b: b, n: n, nodes: make(map[*value]kernels.Value)}
	known, weights := true, false
	for _, name := range n.Inputs {
		v := b.values[name]
		c.in = append(c.in, v)
		switch {
		case name == "":
			continue
		case v.blamed:
			return nil, errBlamed
		case v.missing != "":
			return nil, fmt.Errorf("operand %q: %s: %w", name, v.missing, kernels.ErrUnsupported)
		}
		known = known && v.con != nil
		weights = weights || b.isParameter(v, data)
	}
	switch {
	case rule.shapes != nil:
		b.counts.folded++
		return c.run(rule.shapes)
	case n.Op == "Identity":
		return b.identity(c)
	case known && !weights || rule.apply == nil:
		out, err := b.fold(c, rule)
		if err == nil || rule.apply == nil {
			b.counts.folded++
			return out, err
		}
	}
	b.counts.steps++
	return c.run(rule.apply)
}

// run applies a rule.
func (c *call) run(f ruleFunc) (out []*value, err error) {
	defer catch(&err)
	return f(c), nil
}

// identity returns the operand. An initializer gets a further name.
func (b *inference) identity(c *call) ([]*value, error) {
	if len(c.in) != 1 || c.in[0] == nil {
		return nil, fmt.Errorf("%d operands, must be 1: %w", len(c.in), kernels.ErrShape)
	}
	v := *c.in[0]
	if v.con != nil && v.con.init != nil && len(c.n.Outputs) == 1 {
		root := v.con.init
		if root.root != nil {
			root = root.root
		}
		con := *v.con
		con.init = &initializer{name: c.n.Outputs[0], tensor: root.tensor, root: root}
		v.con = &con
	}
	b.counts.folded++
	return []*value{&v}, nil
}

// fold computes a node of constants, in a program and a call of its own: c is as it was.
func (b *inference) fold(c *call, r *rule) (out []*value, err error) {
	f := r.apply
	if r.fold != nil {
		f = r.fold
	}
	for _, v := range c.in {
		if v != nil && v.con == nil {
			return nil, fmt.Errorf("%s of values that the model computes: %w", c.n.Op, kernels.ErrUnsupported)
		}
	}
	p := newProgram(true)
	folding := &call{program: p, b: b, n: c.n, in: c.in, nodes: make(map[*value]kernels.Value)}
	if out, err = folding.run(f); err != nil {
		return nil, err
	}
	tensors, err := p.evaluate(b.limit)
	if err != nil {
		return nil, err
	}
	defer catch(&err)
	for i, v := range out {
		if v == nil || v.con != nil {
			b.spend(v)
			continue
		}
		data := slices.Clone(tensors[v.at].Data)
		for k, x := range data {
			data[k] = round(v.typ, x)
		}
		out[i] = known(v.typ, v.shape, data)
		b.spend(out[i])
	}
	return out, nil
}

// mostFolded limits the elements of all folded values, in units of Options.FoldElements.
const mostFolded = 16

// spend counts the elements of a folded value.
func (b *inference) spend(v *value) {
	if v == nil || v.con.tensor != nil {
		return
	}
	n := len(v.con.data)
	if b.folded += n; n > b.limit || b.folded > mostFolded*b.limit {
		refuse("the constants that are folded have more elements than Options.FoldElements of %d allows", b.limit)
	}
}

// outputs finds the results of the model, and checks that each has one row for each of the batch.
func (b *inference) outputs() error {
	for _, o := range b.m.graph.Outputs {
		v := b.values[o.Name]
		switch {
		case v.missing != "":
			return b.m.errorf("output %q: %s: %w", o.Name, v.missing, kernels.ErrUnsupported)
		case v.con != nil:
			return b.m.errorf("output %q does not depend on the inputs: %w", o.Name, kernels.ErrUnsupported)
		case slices.ContainsFunc(b.m.inputs, func(in proto.ValueInfo) bool { return in.Name == o.Name }):
			return b.m.errorf("output %q is an input: %w", o.Name, kernels.ErrUnsupported)
		case len(v.shape) == 0 || v.shape[0] != b.batch:
			return b.m.errorf("output %q is %v for a batch of %d, must have one row for each sample%s: %w", o.Name, v.shape, b.batch, b.m.cure(), kernels.ErrShape)
		}
		if err := b.agrees(o, v.shape); err != nil {
			return err
		}
		b.program.outputs = append(b.program.outputs, v)
	}
	return nil
}

// agrees returns an error if the file states another shape of an output.
func (b *inference) agrees(o proto.ValueInfo, shape kernels.Shape) error {
	if !o.HasShape {
		return nil
	}
	bad := len(o.Dims) != len(shape)
	for i := 0; i < len(o.Dims) && !bad; i++ {
		bad = i > 0 && o.Dims[i].HasValue && o.Dims[i].Value != int64(shape[i])
	}
	if bad {
		return b.m.errorf("output %q is %v, and the file states another shape: %w", o.Name, shape, ErrFormat)
	}
	return nil
}
