package compile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// ErrLosses is wrapped by errors about graphs that were differentiated in a way that one reverse pass cannot follow.
var ErrLosses = errors.New("not the gradient of one loss")

// Links are what a machine's program shares with its graph.
type Links struct {
	Inputs  []Link // nodes without an op, in Parameters
	Outputs []Link // nodes whose values exist after a run, in Results
	Grads   []Link // inputs that have a gradient, which lies in Gradients
	Reads   []Read // what gorgonia.Read asks for
}

// Link is a node and where its value, or its gradient, lies.
type Link struct {
	Node *gorgonia.Node
	Spec kernels.Spec
	Ref  arena.Ref // in the program's regions
	Sum  bool      // the gradient is added to what lies there
	Own  bool      // the gradient's node stands for nothing else
}

// Read is a target of gorgonia.Read.
type Read struct {
	Into   *gorgonia.Value
	Output int // index in Links.Outputs
}

// CompileMachine compiles a whole graph as it is: the values of its roots, of what is read and of cfg.Keep, and the gradients of those
// inputs that gorgonia.Grad was called for. All inputs have homes.
//
//	forward ─► gradients of the loss ─► what the program computes from gradients
//
// Gorgonia's own gradient nodes are not executed: the nodes that are gradients of inputs stand for ours.
func CompileMachine(ctx context.Context, g *gorgonia.ExprGraph, cfg Config) (*ir.Program, *Links, error) {
	cfg.Mode = Machine
	cfg.Params = make(map[*gorgonia.Node]bool)
	for _, n := range g.AllNodes() {
		if n.Op() == nil {
			cfg.Params[n] = true
		}
	}
	c, links := newCompiler(cfg), new(Links)
	c.Name = "machine"
	if err := c.compile(ctx, func() error { return c.machine(g, links) }); err != nil {
		return nil, nil, err
	}
	return c.Program, links, nil
}

// training reports whether operations that differ between training and inference train.
func (c *compiler) training() bool { return c.Mode == Train || c.Mode == Machine && !c.Eval }

// machine reads the graph and appends gradients and results.
func (c *compiler) machine(g *gorgonia.ExprGraph, links *Links) error {
	f, err := c.face(g)
	if err != nil {
		return err
	}
	c.Loss = f.loss
	late := f.late()
	early := slices.DeleteFunc(append(gorgonia.Nodes{f.loss}, f.outputs...), func(n *gorgonia.Node) bool { return n != f.loss && late[n] })
	if err := c.read(g, early); err != nil {
		return err
	}
	if len(f.wanted) > 0 {
		if err := c.machineGradients(f, links); err != nil {
			return err
		}
	}
	if err := c.read(g, f.outputs); err != nil {
		return err
	}
	for _, n := range f.outputs {
		c.Label, c.Owner, c.Mark = n.Name(), "results", ""
		name := c.fresh(ir.Results, n.Name())
		if err := c.result(name, c.values[n]); err != nil {
			return err
		}
		r, _ := c.Result(name)
		links.Outputs = append(links.Outputs, Link{Node: n, Spec: r.Spec, Ref: r.Ref})
	}
	for _, p := range c.params {
		v := c.Values[p.value]
		links.Inputs = append(links.Inputs, Link{Node: p.node, Spec: v.Spec, Ref: v.Ref})
	}
	for _, r := range f.reads {
		into, _ := readTarget(r)
		links.Reads = append(links.Reads, Read{Into: into, Output: slices.Index(f.outputs, children(r)[0])})
	}
	return nil
}

// machineGradients appends the gradients of the wanted inputs, each at its home, and lets the nodes that Gorgonia made for them stand
// for ours.
func (c *compiler) machineGradients(f *face, links *Links) error {
	loss, err := c.scalarLoss()
	if err != nil {
		return err
	}
	var wanted []kernels.Value
	for _, n := range f.wanted {
		if v, ok := c.values[n]; ok {
			wanted = append(wanted, v)
		}
	}
	grads, err := c.gradients(loss, wanted)
	if err != nil {
		return err
	}
	missing := &UnreachedError{Loss: c.Loss.Name()}
	for _, n := range f.wanted {
		v, ok := c.values[n]
		if !ok || grads[v] == kernels.None {
			missing.Params = append(missing.Params, n.Name())
			continue
		}
		name := c.Values[v].Name
		c.Label, c.Owner, c.Mark = "d"+name, ir.OwnerOf(name), ""
		_, read := c.values[n.Deriv()]
		l := Link{Node: n, Spec: c.Spec(v), Sum: c.Sum[n], Own: !read && f.own(n, c.Sum[n])}
		if l.Sum {
			var sum kernels.Value
			if sum, err = c.accumulate(name, grads[v]); err == nil {
				l.Ref = c.Values[sum].Ref
				c.Roots = append(c.Roots, sum)
			}
		} else if grads[v], err = c.settle(ir.Gradients, c.Owner, name, grads[v]); err == nil {
			l.Ref = c.Values[grads[v]].Ref
			c.Roots = append(c.Roots, grads[v])
		}
		if err != nil {
			return err
		}
		links.Grads = append(links.Grads, l)
		if !read && n.Deriv().Op() != nil {
			c.values[n.Deriv()] = grads[v]
		}
	}
	if missing.Params != nil {
		return missing
	}
	return nil
}

// fresh returns name, with a number where region r has that name already: the nodes of a graph need no unique names.
func (c *compiler) fresh(r arena.Region, name string) string {
	try := name
	for i := 2; ; i++ {
		if _, taken := c.Builder.Homes.Find(r, try); !taken {
			return try
		}
		try = fmt.Sprintf("%s#%d", name, i)
	}
}

// face is what a program that holds the graph can see of it.
type face struct {
	parents map[*gorgonia.Node]gorgonia.Nodes
	loss    *gorgonia.Node // nil: nothing was differentiated
	wanted  gorgonia.Nodes // inputs with a gradient
	outputs gorgonia.Nodes // each once
	reads   gorgonia.Nodes // statements
}

// face looks the graph over. Edges are read from the nodes: the graph's own look-ups go stale.
func (c *compiler) face(g *gorgonia.ExprGraph) (*face, error) {
	f := &face{parents: make(map[*gorgonia.Node]gorgonia.Nodes)}
	read := make(map[*gorgonia.Node]bool)
	all := g.AllNodes()
	for _, n := range all {
		if n.Op() == nil && n.Deriv() != nil {
			f.wanted = append(f.wanted, n)
		}
		if _, ok := readTarget(n); ok {
			f.reads = append(f.reads, n)
			read[children(n)[0]] = true
			continue
		}
		for _, x := range children(n) {
			f.parents[x] = append(f.parents[x], n)
		}
	}
	if err := f.findLoss(all); err != nil {
		return nil, err
	}
	for _, n := range all {
		if n.Type() != nil && (n == f.loss && n.Op() != nil || read[n] || slices.Contains(c.Keep, n) || f.root(n)) {
			f.outputs = append(f.outputs, n)
		}
	}
	return f, nil
}

// root reports whether n is computed, for nobody but the program, and by the graph as the program built it.
func (f *face) root(n *gorgonia.Node) bool {
	return Computed(n) && len(f.parents[n]) == 0 && !backward(n)
}

// backward reports whether Gorgonia made n in order to differentiate. It labels what it makes; nodes between are never roots.
func backward(n *gorgonia.Node) bool {
	group := reflect.ValueOf(n).Elem().FieldByName("group").String()
	return len(n.DerivOf()) > 0 || group == "gradients" || group == "undifferentiated nodes"
}

// findLoss finds the node that was differentiated: the one with a gradient that no other with a gradient is computed from.
func (f *face) findLoss(all gorgonia.Nodes) error {
	var names []string
	for _, n := range all {
		if n.Deriv() == nil || slices.ContainsFunc(f.parents[n], func(p *gorgonia.Node) bool { return p.Deriv() != nil }) {
			continue
		}
		f.loss = n
		names = append(names, n.Name())
	}
	switch {
	case len(names) > 1:
		return fmt.Errorf("%q were differentiated, each for itself: differentiate their sum: %w", names, ErrLosses)
	case f.loss == nil:
		return nil
	}
	if op := f.loss.Deriv().Op(); op == nil || valueOf(op) == nil || scalarOf(valueOf(op)) != (constant{1, true}) {
		return fmt.Errorf("the gradient of %q does not begin with 1: %w", f.loss.Name(), ErrLosses)
	}
	return nil
}

// late returns the nodes that are computed from gradients of inputs.
func (f *face) late() map[*gorgonia.Node]bool {
	late := make(map[*gorgonia.Node]bool)
	var stack gorgonia.Nodes
	for _, n := range f.wanted {
		if Computed(n.Deriv()) {
			stack = append(stack, n.Deriv())
		}
	}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !late[n] {
			late[n] = true
			stack = append(stack, f.parents[n]...)
		}
	}
	return late
}

// own reports whether n's gradient node is that of no other input, and neither an input nor a constant: then it can hold n's gradient.
// A sum of gradients is not what a program reads from it.
func (f *face) own(n *gorgonia.Node, sum bool) bool {
	d := n.Deriv()
	if !Computed(d) || sum && slices.Contains(f.outputs, d) {
		return false
	}
	return !slices.ContainsFunc(f.wanted, func(w *gorgonia.Node) bool { return w != n && w.Deriv() == d })
}

// ValueOver returns a value for n over b, which holds its elements: a tensor shares these bytes, a scalar is a copy.
func ValueOver(n *gorgonia.Node, b []byte) gorgonia.Value { return Unpooled(declare(n).wrap(b)) }

// Unpooled returns v as a tensor of its own, shape included. Gorgonia's constructors hand out tensors that UnbindAll has blanked, and
// slices of their shapes, while whoever had them before may still use them.
func Unpooled(v gorgonia.Value) gorgonia.Value {
	d, ok := v.(*tensor.Dense)
	if !ok {
		return v
	}
	own := *d
	own.AP = tensor.MakeAP(slices.Clone(d.Shape()), slices.Clone(d.Strides()), d.DataOrder(), tensor.NotTriangle)
	return &own
}

// Settle gives every node of g a shape of its own. A node that was made with a value shares the value's shape, and so do nodes that are
// computed from it: Gorgonia's UnbindAll, which sets that shape to zeros, would change the nodes too.
func Settle(g *gorgonia.ExprGraph) {
	for _, n := range g.AllNodes() {
		if s := n.Shape(); n.Type() != nil && len(s) > 0 {
			gorgonia.WithShape(s...)(n)
		}
	}
}

// Computed reports whether n has an op that computes its value: it is neither an input nor a constant.
func Computed(n *gorgonia.Node) bool { return n.Op() != nil && valueOf(n.Op()) == nil }
