package frontend

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// ErrLosses is wrapped by errors about graphs that were differentiated in a way that one backward
// pass cannot reproduce.
var ErrLosses = errors.New("not the gradient of one loss")

// Links connect the nodes of a machine's graph with the homes of the program.
type Links struct {
	Inputs  []Link // nodes without an op, in Parameters
	Outputs []Link // nodes whose values exist after a run, in Results
	Grads   []Link // inputs that have a gradient, which lies in Gradients
	Reads   []Read // targets of gorgonia.Read
}

// Link is a node and the home of its value, or of its gradient.
type Link struct {
	Node       *gorgonia.Node
	Spec       kernels.Spec
	Ref        arena.Ref // in the program's regions
	Accumulate bool      // the gradient is added to the contents of its home
	// Own: no other input has the same gradient node, and that node has no other value. So the
	// machine may store this gradient as the node's value.
	Own bool
}

// Read is a target of gorgonia.Read.
type Read struct {
	Into   *gorgonia.Value
	Output int // index in Links.Outputs
}

// MachineGraph is a graph whose user calls gorgonia.Grad for inputs and reads the values of nodes.
// The compiler appends the gradients of Wanted and passes each to SetGrad before it calls
// LowerOutputs:
//
//	Graph.LowerMachine ─► gradients of Loss ─► SetGrad ─► LowerOutputs ─► results ─► Links
//
// The nodes that Gorgonia made for the gradients of Wanted are not lowered: SetGrad gives them
// their values, unless they have one. The nodes from which Gorgonia would compute these are not
// lowered either, unless the user reads them.
type MachineGraph struct {
	Loss   kernels.Value // None: nothing was differentiated
	Wanted []Wanted      // inputs that gorgonia.Grad was called for

	g     *Graph
	nodes *userNodes
	links Links
}

// Wanted is an input that needs a gradient.
type Wanted struct {
	Name       string        // of the node
	Value      kernels.Value // None: the loss does not depend on it
	Accumulate bool          // the gradient is added to the contents of its home

	node *gorgonia.Node
}

// Output is a node whose value is a result of the program.
type Output struct {
	Name  string // of the node; several may share it
	Value kernels.Value
}

// LowerMachine lowers the outputs that do not depend on gradients, and the loss. LowerOutputs
// lowers the rest. All nodes without an op become parameters.
func (g *Graph) LowerMachine() (*MachineGraph, error) {
	nodes, err := userNodesOf(g.Model.Graph, g.Keep)
	if err != nil {
		return nil, err
	}
	m := &MachineGraph{Loss: kernels.None, g: g, nodes: nodes}
	g.Loss = nodes.loss
	fromGrads := nodes.fromGradients()
	forward := slices.DeleteFunc(append(gorgonia.Nodes{nodes.loss}, nodes.outputs...),
		func(n *gorgonia.Node) bool { return n != nodes.loss && fromGrads[n] })
	if err := g.lower(forward); err != nil {
		return nil, err
	}
	if len(nodes.wanted) == 0 { // without gradients there need be no loss
		return m, nil
	}
	if m.Loss, err = g.scalarLoss(); err != nil {
		return nil, err
	}
	// An input that was not lowered has no value: the loss does not read it.
	for _, n := range nodes.wanted {
		w := Wanted{Name: n.Name(), Value: kernels.None, Accumulate: g.Accumulate[n], node: n}
		if value, ok := g.values[n]; ok {
			w.Value = value
		}
		m.Wanted = append(m.Wanted, w)
	}
	return m, nil
}

// SetGrad links w's node with home, the value in region Gradients that holds the gradient or the
// sum that it is added to. The node that Gorgonia made for the gradient has the value grad from
// then on.
func (m *MachineGraph) SetGrad(w Wanted, grad, home kernels.Value) {
	g, n := m.g, w.node
	// Lowered: the node has a value already, such as the gradient of another input with the same
	// node.
	_, lowered := g.values[n.Deriv()]
	m.links.Grads = append(m.links.Grads, Link{
		Node: n, Spec: g.Spec(w.Value), Ref: g.Values[home].Ref, Accumulate: w.Accumulate,
		Own: !lowered && m.nodes.ownsDeriv(n, w.Accumulate),
	})
	// Where the node of the gradient is an input of the graph, it keeps the value of that input.
	if !lowered && n.Deriv().Op() != nil {
		g.values[n.Deriv()] = grad
	}
}

// LowerOutputs lowers the other nodes that the program reads and returns all of them. The caller
// makes each a result, in this order.
func (m *MachineGraph) LowerOutputs() ([]Output, error) {
	if err := m.g.lower(m.nodes.outputs); err != nil {
		return nil, err
	}
	var outputs []Output
	for _, n := range m.nodes.outputs {
		outputs = append(outputs, Output{Name: n.Name(), Value: m.g.values[n]})
	}
	return outputs, nil
}

// Links returns the homes of the graph's inputs, gradients and outputs.
func (m *MachineGraph) Links() *Links {
	g, links := m.g, m.links
	// The results of a machine are its outputs, in their order.
	for i, n := range m.nodes.outputs {
		r := g.Values[g.Results[i].Value]
		links.Outputs = append(links.Outputs, Link{Node: n, Spec: r.Spec, Ref: r.Ref})
	}
	for _, p := range g.params {
		value := g.Values[p.Value]
		links.Inputs = append(links.Inputs, Link{Node: p.node, Spec: value.Spec, Ref: value.Ref})
	}
	for _, r := range m.nodes.reads {
		into, _ := readTarget(r)
		links.Reads = append(links.Reads, Read{Into: into, Output: slices.Index(m.nodes.outputs, children(r)[0])})
	}
	return &links
}

// userNodes are the nodes of a graph that matter to its user.
type userNodes struct {
	parents map[*gorgonia.Node]gorgonia.Nodes // nodes that read a node, except by gorgonia.Read
	loss    *gorgonia.Node                    // nil: nothing was differentiated
	wanted  gorgonia.Nodes                    // inputs with a gradient
	outputs gorgonia.Nodes                    // each once
	reads   gorgonia.Nodes                    // nodes of gorgonia.Read
}

// userNodesOf returns the nodes of g that matter to its user; the nodes of keep are outputs, too.
// It reads edges from the nodes, as children does.
func userNodesOf(g *gorgonia.ExprGraph, keep gorgonia.Nodes) (*userNodes, error) {
	u := &userNodes{parents: make(map[*gorgonia.Node]gorgonia.Nodes)}
	read := make(map[*gorgonia.Node]bool) // operands of gorgonia.Read
	all := g.AllNodes()
	for _, n := range all {
		if n.Op() == nil && n.Deriv() != nil {
			u.wanted = append(u.wanted, n)
		}
		if _, ok := readTarget(n); ok {
			u.reads = append(u.reads, n)
			read[children(n)[0]] = true
			continue
		}
		for _, x := range children(n) {
			u.parents[x] = append(u.parents[x], n)
		}
	}
	if err := u.findLoss(all); err != nil {
		return nil, err
	}
	// Statements have no type and no value.
	for _, n := range all {
		if n.Type() != nil && (n == u.loss && n.Op() != nil || read[n] || slices.Contains(keep, n) || u.isRoot(n)) {
			u.outputs = append(u.outputs, n)
		}
	}
	return u, nil
}

// isRoot reports whether the user made n, n is computed, and no other node reads it.
func (u *userNodes) isRoot(n *gorgonia.Node) bool {
	return Computed(n) && len(u.parents[n]) == 0 && !isBackward(n)
}

// isBackward reports whether Gorgonia made n to differentiate. Gorgonia puts such nodes into groups
// with these names; some are in no group, but other nodes read them.
func isBackward(n *gorgonia.Node) bool {
	group := reflect.ValueOf(n).Elem().FieldByName("group").String()
	return len(n.DerivOf()) > 0 || group == "gradients" || group == "undifferentiated nodes"
}

// findLoss finds the node that was differentiated: it has a gradient, and no node with a gradient
// reads it.
func (u *userNodes) findLoss(all gorgonia.Nodes) error {
	var names []string
	for _, n := range all {
		if n.Deriv() == nil || slices.ContainsFunc(u.parents[n], func(p *gorgonia.Node) bool { return p.Deriv() != nil }) {
			continue
		}
		u.loss = n
		names = append(names, n.Name())
	}
	switch {
	case len(names) > 1:
		return fmt.Errorf("%q were differentiated separately: differentiate their sum: %w", names, ErrLosses)
	case u.loss == nil:
		return nil
	}
	// Another initial gradient would scale all gradients: the backward pass here begins with 1.
	if op := u.loss.Deriv().Op(); op == nil || valueOf(op) == nil || scalarOf(valueOf(op)) != (scalarConst{1, true}) {
		return fmt.Errorf("the gradient of %q does not begin with 1: %w", u.loss.Name(), ErrLosses)
	}
	return nil
}

// fromGradients returns the nodes that are computed from gradients of inputs.
func (u *userNodes) fromGradients() map[*gorgonia.Node]bool {
	found := make(map[*gorgonia.Node]bool)
	var stack gorgonia.Nodes // nodes whose readers are not visited yet
	for _, n := range u.wanted {
		if Computed(n.Deriv()) {
			stack = append(stack, n.Deriv())
		}
	}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !found[n] {
			found[n] = true
			stack = append(stack, u.parents[n]...)
		}
	}
	return found
}

// ownsDeriv reports whether the node that Gorgonia made for n's gradient can hold it: the node is
// computed, and is the gradient of no other input. Where the gradient is added to a sum, the
// program must not read the node either: it expects the gradient alone.
func (u *userNodes) ownsDeriv(n *gorgonia.Node, sum bool) bool {
	d := n.Deriv()
	if !Computed(d) || sum && slices.Contains(u.outputs, d) {
		return false
	}
	return !slices.ContainsFunc(u.wanted, func(w *gorgonia.Node) bool { return w != n && w.Deriv() == d })
}
