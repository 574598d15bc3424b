package frontend

import (
	"cmp"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// reader lowers the nodes that some roots need. It reads the model's graph, or the small graph of a
// fallback's gradient.
type reader struct {
	*Graph
	values    map[*gorgonia.Node]kernels.Value // of lowered nodes; while read runs, None marks a node with an error
	scalars   map[*gorgonia.Node]scalarConst   // scalars that have been evaluated, constant or not
	readInput func(n *gorgonia.Node) (kernels.Value, error)
	// label replaces the nodes' names in the small graph of a fallback's gradient, where Gorgonia
	// generates names; empty: each instruction has its node's name.
	label string
	// runAfter is an additional operand of fallbacks: the value of an op that keeps state for its
	// gradient. None: there is none.
	runAfter kernels.Value
	uses     map[*gorgonia.Node]int // number of nodes and results that read a node; nil: not counted yet
	errs     []error
}

// rule lowers a node n: build gets the values of the nodes in, appends the instructions that
// compute n from them, and returns n's value. The rule of x + y has the nodes x and y, and a build
// that applies one addition.
type rule struct {
	in    gorgonia.Nodes
	build func(in []kernels.Value) (kernels.Value, error)
}

// read lowers the roots and the nodes that they need, in the order of their ids: the order in which
// the user made them, operands before their readers. It is close to the order in which a person
// would run them. In depth-first order, operands that only later layers or time steps need can come
// first; they would stay live for long, and their gradients would come last. Errors are appended to
// r.errs; nodes that need a node with an error are left out.
func (r *reader) read(roots gorgonia.Nodes) {
	r.scalars = make(map[*gorgonia.Node]scalarConst)
	rules, order := r.collect(roots)
	slices.SortStableFunc(order, func(a, b *gorgonia.Node) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, n := range order {
		if _, done := r.values[n]; !done {
			r.values[n] = r.build(n, rules[n])
		}
	}
	// A later read may lower them again, and reports their errors again.
	for n, v := range r.values {
		if v == kernels.None {
			delete(r.values, n)
		}
	}
}

// collect returns the rules of the nodes that the roots need, and these nodes, operands first. A
// rule can skip nodes: those of a pattern need no rule of their own. The search is depth first,
// without recursion: a recurrent net can be tens of thousands of nodes deep.
func (r *reader) collect(roots gorgonia.Nodes) (rules map[*gorgonia.Node]*rule, order gorgonia.Nodes) {
	type frame struct {
		node *gorgonia.Node
		next int // index of the next operand to visit
	}
	rules = make(map[*gorgonia.Node]*rule) // of all nodes that have been entered
	var stack []frame                      // the path from a root to the present node
	enter := func(n *gorgonia.Node) {
		_, done := r.values[n] // lowered by an earlier read, or given by the caller
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
			// All operands are in order: the node follows them.
			order = append(order, f.node)
			stack = stack[:len(stack)-1]
		}
	}
	return rules, order
}

// ruleOf returns the rule of n. Where n cannot be lowered, it is a rule that returns the error, so
// that read reports all of them.
func (r *reader) ruleOf(n *gorgonia.Node) (found *rule) {
	defer func() {
		if err := ir.Recovered(recover()); err != nil {
			found = &rule{build: func([]kernels.Value) (kernels.Value, error) { return kernels.None, err }}
		}
	}()
	if n.Op() == nil {
		// A tensor without gorgonia.WithShape has dimensions but no sizes.
		if t, ok := n.Type().(gorgonia.TensorType); ok && t.Dims != len(n.Shape()) {
			panic(ir.BuildError{Err: fmt.Errorf("%q has %d dimensions and shape %v: give it a shape: %w",
				n.Name(), t.Dims, n.Shape(), kernels.ErrShape)})
		}
		return &rule{build: func([]kernels.Value) (kernels.Value, error) { return r.readInput(n) }}
	}
	found, err := r.lowerOp(n)
	if err != nil {
		panic(ir.BuildError{Err: err})
	}
	return found
}

// build applies the rule of n. It returns None where the rule, or that of an operand, has an error.
func (r *reader) build(n *gorgonia.Node, by *rule) (v kernels.Value) {
	in := make([]kernels.Value, len(by.in))
	for i, operand := range by.in {
		if in[i] = r.values[operand]; in[i] == kernels.None {
			return kernels.None
		}
	}
	defer func() {
		if err := ir.Recovered(recover()); err != nil {
			r.errs = append(r.errs, nodeError(n, err))
			v = kernels.None
		}
	}()
	if r.setLabel(n); r.label != "" {
		r.Label, r.Owner = r.label, ir.OwnerOf(r.label)
	}
	v, err := by.build(in)
	if err == nil && n.Op() != nil {
		v, err = r.toNodeShape(n, v)
	}
	if err != nil {
		panic(ir.BuildError{Err: err})
	}
	return v
}

// nodeError adds the node that an error is about. Errors of nodes without an op name them already.
func nodeError(n *gorgonia.Node, err error) error {
	if n.Op() == nil {
		return err
	}
	return fmt.Errorf("node %q (%v, %s): %w", n.Name(), n.Op(), opKey(n.Op()), err)
}

// toNodeShape reshapes v to the shape of n in the graph, and checks its type. The shapes may
// differ: Gorgonia does not distinguish a scalar from a tensor of one element, nor a vector from a
// matrix of one row or column, and drops dimensions of size 1. Integers have the type in which
// their field is stored, whatever type the graph gives them.
func (r *reader) toNodeShape(n *gorgonia.Node, v kernels.Value) (kernels.Value, error) {
	if n.Type() == nil { // a statement
		return v, nil
	}
	have, want := r.Spec(v), shapeOf(n)
	if want.Elems() != have.Shape.Elems() {
		return kernels.None, fmt.Errorf("computes %v, but the graph has shape %v: %w", have, want, kernels.ErrShape)
	}
	if dt, err := dtypeOf(n.Dtype()); err == nil && dt != have.Type && (dt.Float() || have.Type.Float()) {
		return kernels.None, fmt.Errorf("computes %v, but the graph has type %v: %w", have, dt, kernels.ErrShape)
	}
	return r.reshape(v, want), nil
}

// reshape returns v in another shape: v itself where it has that shape.
func (r *reader) reshape(v kernels.Value, to kernels.Shape) kernels.Value {
	if r.Spec(v).Shape.Equal(to) {
		return v
	}
	return r.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: to}, v)
}

// fill returns a value with all elements x.
func (r *reader) fill(t arena.DType, shape kernels.Shape, x float64) kernels.Value {
	return r.Apply(kernels.Fill, kernels.FillAttrs{Type: t, Shape: shape, Value: x})
}

// shapeOf returns the shape of n, a copy.
func shapeOf(n *gorgonia.Node) kernels.Shape { return append(kernels.Shape{}, n.Shape()...) }

// typeOf returns the arena type of n's elements, or an error for a bool: see storageType.
func typeOf(n *gorgonia.Node) (arena.DType, error) { return dtypeOf(n.Dtype()) }
