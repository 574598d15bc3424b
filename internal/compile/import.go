package compile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// reader turns the nodes of a Gorgonia graph into values of the program.
type reader struct {
	*compiler
	values  map[*gorgonia.Node]kernels.Value // what each node became; None: reading it went wrong
	scalar  map[*gorgonia.Node]constant      // scalars that are known now, and those that are not
	leaf    func(n *gorgonia.Node) (kernels.Value, error)
	of      string                 // label of all that is built, where nodes have no names that a person knows
	after   kernels.Value          // a fallback also waits for this value, whose making left something behind in its op; None: for nothing
	readers map[*gorgonia.Node]int // how many nodes and results read a node; nil: not counted yet
	errs    []error
}

// rule says how a node is computed: from which nodes, and how from their values.
type rule struct {
	in    gorgonia.Nodes
	build func(in []kernels.Value) (kernels.Value, error)
}

// frame is a node that is being read: its operands up to next are done.
type frame struct {
	node *gorgonia.Node
	next int
}

// read reads the forward graph from its roots into the program, lowered, operands first. What the roots do not need is
// not read. It reports every node that has no operation of ours and cannot fall back, and every malformed one, at once.
func (c *compiler) read(g *gorgonia.ExprGraph, roots gorgonia.Nodes) error {
	r := &reader{compiler: c, values: c.values, leaf: c.input, after: kernels.None}
	for _, n := range roots {
		if n != nil && n.Graph() != g {
			return fmt.Errorf("%q is not a node of the model's graph: %w", n.Name(), ErrInput)
		}
	}
	r.read(roots)
	c.Label, c.Owner, c.Mark = "", "", ""
	return errors.Join(r.errs...)
}

// read builds what the roots need, in the order in which the program made the nodes: it is close to that in which a person would run them, while depth
// first the early operands of late steps would all come at the start, and their gradients at the end.
func (r *reader) read(roots gorgonia.Nodes) {
	r.scalar = make(map[*gorgonia.Node]constant)
	rules, order := r.needed(roots)
	slices.SortStableFunc(order, func(a, b *gorgonia.Node) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, n := range order {
		if _, done := r.values[n]; !done {
			r.values[n] = r.build(n, rules[n])
		}
	}
	for n, v := range r.values {
		if v == kernels.None {
			delete(r.values, n)
		}
	}
}

// needed returns how each node that the roots need is computed, operands first. It visits them depth first, without recursion: graphs are deep.
func (r *reader) needed(roots gorgonia.Nodes) (rules map[*gorgonia.Node]*rule, order gorgonia.Nodes) {
	rules = make(map[*gorgonia.Node]*rule)
	var stack []frame
	enter := func(n *gorgonia.Node) {
		_, done := r.values[n]
		if n == nil || done || rules[n] != nil {
			return
		}
		rules[n] = r.ruleOf(n)
		stack = append(stack, frame{node: n})
	}
	for _, root := range roots {
		enter(root)
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if in := rules[f.node].in; f.next < len(in) {
				f.next++
				enter(in[f.next-1])
				continue
			}
			order = append(order, f.node)
			stack = stack[:len(stack)-1]
		}
	}
	return rules, order
}

// ruleOf finds how n is computed. An error becomes a rule that fails.
func (r *reader) ruleOf(n *gorgonia.Node) (found *rule) {
	defer func() {
		if b := ir.Recovered(recover()); b != nil {
			found = &rule{build: func([]kernels.Value) (kernels.Value, error) { return kernels.None, b }}
		}
	}()
	if n.Op() == nil {
		if t, ok := n.Type().(gorgonia.TensorType); ok && t.Dims != len(n.Shape()) {
			panic(ir.BuildError{Err: fmt.Errorf("%q has %d dimensions and shape %v: give it a shape: %w", n.Name(), t.Dims, n.Shape(), kernels.ErrShape)})
		}
		return &rule{build: func([]kernels.Value) (kernels.Value, error) { return r.leaf(n) }}
	}
	found, err := r.lower(n)
	if err != nil {
		panic(ir.BuildError{Err: err})
	}
	return found
}

// build computes n by its rule. It returns None where that, or an operand, went wrong.
func (r *reader) build(n *gorgonia.Node, how *rule) (v kernels.Value) {
	in := make([]kernels.Value, len(how.in))
	for i, child := range how.in {
		if in[i] = r.values[child]; in[i] == kernels.None {
			return kernels.None
		}
	}
	defer func() {
		if err := ir.Recovered(recover()); err != nil {
			r.errs = append(r.errs, r.blame(n, err))
			v = kernels.None
		}
	}()
	if r.at(n); r.of != "" {
		r.Label, r.Owner = r.of, ir.OwnerOf(r.of)
	}
	v, err := how.build(in)
	if err == nil && n.Op() != nil {
		v, err = r.fit(n, v)
	}
	if err != nil {
		panic(ir.BuildError{Err: err})
	}
	return v
}

// blame says which node an error is about.
func (r *reader) blame(n *gorgonia.Node, err error) error {
	if n.Op() == nil {
		return err
	}
	return fmt.Errorf("node %q (%v, %s): %w", n.Name(), n.Op(), opKey(n.Op()), err)
}

// fit gives v the shape that Gorgonia says n has. Gorgonia does not tell a scalar from a tensor of one element, nor a
// vector from a matrix of one row or column, and drops dimensions of size 1. Integers are of the type in which their field is stored,
// whatever the graph says.
func (r *reader) fit(n *gorgonia.Node, v kernels.Value) (kernels.Value, error) {
	if n.Type() == nil { // a statement
		return v, nil
	}
	have, want := r.Spec(v), shapeOf(n)
	if want.Elems() != have.Shape.Elems() {
		return kernels.None, fmt.Errorf("computes %v, the graph says %v: %w", have, want, kernels.ErrShape)
	}
	if dt, err := dtypeOf(n.Dtype()); err == nil && dt != have.Type && (dt.Float() || have.Type.Float()) {
		return kernels.None, fmt.Errorf("computes %v, the graph says %v: %w", have, dt, kernels.ErrShape)
	}
	return r.reshape(v, want), nil
}

// reshape gives v another shape, if it has not that one.
func (r *reader) reshape(v kernels.Value, to kernels.Shape) kernels.Value {
	if r.Spec(v).Shape.Equal(to) {
		return v
	}
	return r.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: to}, v)
}

// fill returns a constant.
func (r *reader) fill(t arena.DType, shape kernels.Shape, x float64) kernels.Value {
	return r.Apply(kernels.Fill, kernels.FillAttrs{Type: t, Shape: shape, Value: x})
}

// shapeOf returns the shape of n.
func shapeOf(n *gorgonia.Node) kernels.Shape { return append(kernels.Shape{}, n.Shape()...) }

// typeOf returns the storage type of n's elements. A bool has none.
func typeOf(n *gorgonia.Node) (arena.DType, error) { return dtypeOf(n.Dtype()) }
