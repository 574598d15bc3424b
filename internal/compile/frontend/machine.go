package frontend

import (
	"errors"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// ErrLosses is wrapped by errors about graphs that were differentiated in a way that a backward
// pass for each loss cannot reproduce.
var ErrLosses = errors.New("not the gradient of one loss")

// Links connect the nodes of a machine's graph with the homes of the program.
type Links struct {
	Inputs  []Link // nodes without an op, in Parameters
	Outputs []Link // nodes whose values exist after a run, in Results
	Grads   []Link // inputs that have a gradient, which lies in Gradients
	Reads   []Read // targets of gorgonia.Read
	Sets    []Set  // assignments of gorgonia.Set, in the order of the graph
	Ranges  []Range
}

// Range is a node of a slice, and the range that the program was compiled for.
type Range struct {
	Node             *gorgonia.Node
	start, end, step int
}

// rangeOf returns the present range of a node; ok is false for nodes that are no slice, and for the
// slice of a whole axis.
func rangeOf(n *gorgonia.Node) (r Range, ok bool) {
	if n.Op() == nil {
		return r, false
	}
	s, _ := sliceOf(n.Op())
	if s == nil {
		return r, false
	}
	return Range{n, s.Start(), s.End(), s.Step()}, true
}

// Changed reports whether the range of the node has changed since, as gorgonia.UnsafeLet changes
// it.
func (r Range) Changed() bool {
	now, ok := rangeOf(r.Node)
	return !ok || now != r
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

// Set is an assignment: after a run, the input To gets the value of an output.
type Set struct {
	To     *gorgonia.Node
	Output int // index in Links.Outputs
}

// MachineGraph is a graph whose user calls gorgonia.Grad for inputs and reads the values of nodes.
// The compiler appends the gradients of each loss by its Wanted inputs and passes each to SetGrad
// before it calls LowerOutputs:
//
//	Graph.LowerMachine ─► gradients of Losses ─► SetGrad ─► LowerOutputs ─► results ─► Links
//
// The nodes that Gorgonia made for the gradients of Wanted are not lowered: SetGrad gives them
// their values, unless they have one. The nodes from which Gorgonia would compute these are not
// lowered either, unless the user reads them.
type MachineGraph struct {
	Losses []Loss // those with wanted inputs

	g     *Graph
	nodes *userNodes
	links Links
}

// Loss is a node that gorgonia.Grad was called for.
type Loss struct {
	Name   string
	Value  kernels.Value
	Wanted []Wanted // inputs that need the gradient of this loss
}

// Wanted is an input that needs a gradient.
type Wanted struct {
	Name       string        // of the node
	Value      kernels.Value // None: the loss does not depend on it
	Accumulate bool          // the gradient is added to the contents of its home
	// Home: the gradient gets a home, in which the program finds it after a run. Otherwise it is
	// only the value of a node.
	Home bool
	// Optional: the machine runs a subgraph without the loss that the input belongs to, and this
	// loss takes its place. If this loss does not depend on the input, the input has no gradient.
	Optional bool

	node  *gorgonia.Node
	deriv *gorgonia.Node // the node whose value the gradient is
}

// Output is a node whose value is a result of the program.
type Output struct {
	Name  string // of the node; several may share it
	Value kernels.Value
}

// LowerMachine lowers the outputs that do not depend on gradients, and the losses. LowerOutputs
// lowers the rest. All nodes without an op become parameters.
func (g *Graph) LowerMachine() (*MachineGraph, error) {
	nodes, err := userNodesOf(g)
	if err != nil {
		return nil, err
	}
	m := &MachineGraph{g: g, nodes: nodes}
	fromGrads := nodes.fromGradients()
	var forward gorgonia.Nodes
	for _, w := range nodes.wanted {
		if fromGrads[w.loss] {
			return nil, &GradientError{Node: w.loss.Name()}
		}
		forward = append(forward, w.loss)
	}
	for _, n := range nodes.outputs {
		if !fromGrads[n] {
			forward = append(forward, n)
		}
	}
	if err := g.lower(forward); err != nil {
		return nil, err
	}
	for _, w := range nodes.wanted {
		if err := m.want(w); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// want appends a wanted gradient to its loss.
func (m *MachineGraph) want(w wantedGrad) error {
	g := m.g
	i := slices.IndexFunc(m.nodes.lossOrder, func(n *gorgonia.Node) bool { return n == w.loss })
	if i < 0 {
		value, err := g.scalarOf(w.loss)
		if err != nil {
			return err
		}
		i = len(m.Losses)
		m.nodes.lossOrder = append(m.nodes.lossOrder, w.loss)
		m.Losses = append(m.Losses, Loss{Name: w.loss.Name(), Value: value})
	}
	// An input that was not lowered has no value: the loss does not read it.
	value, ok := g.values[w.input]
	if !ok {
		value = kernels.None
	}
	m.Losses[i].Wanted = append(m.Losses[i].Wanted, Wanted{Name: w.input.Name(), Value: value,
		Accumulate: w.home && g.Accumulate[w.input], Home: w.home, Optional: w.optional, node: w.input, deriv: w.deriv})
	return nil
}

// SetGrad gives the node that Gorgonia made for w's gradient the value grad, and links w's node
// with home, the value in region Gradients that holds the gradient or the sum that it is added to;
// None if w has no home.
func (m *MachineGraph) SetGrad(w Wanted, grad, home kernels.Value) {
	g, n := m.g, w.node
	// Lowered: the node has a value already, such as the gradient of another input with the same
	// node.
	_, lowered := g.values[w.deriv]
	if w.Home {
		m.links.Grads = append(m.links.Grads, Link{
			Node: n, Spec: g.Spec(w.Value), Ref: g.Values[home].Ref, Accumulate: w.Accumulate,
			Own: !lowered && m.nodes.ownsDeriv(n, w.Accumulate),
		})
	}
	// Where the node of the gradient is an input of the graph, it keeps the value of that input.
	if !lowered && w.deriv.Op() != nil {
		g.values[w.deriv] = grad
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
	for _, n := range BaseGraph(g.Model.Graph).AllNodes() {
		if _, ok := g.values[n]; !ok {
			continue
		}
		if r, ok := rangeOf(n); ok {
			links.Ranges = append(links.Ranges, r)
		}
	}
	for _, s := range m.nodes.sets {
		in := children(s)
		links.Sets = append(links.Sets, Set{To: in[0], Output: slices.Index(m.nodes.outputs, in[1])})
	}
	return &links
}
