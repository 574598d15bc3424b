package frontend

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// userNodes are the nodes of a graph that matter to its user.
type userNodes struct {
	all       gorgonia.Nodes                    // of the graph, or of the subgraph
	has       map[*gorgonia.Node]bool           // the same
	readers   map[*gorgonia.Node]gorgonia.Nodes // nodes of all that read a node, without statements
	losses    *lossTable                        // of the whole graph
	wanted    []wantedGrad                      // of the inputs, in the order of the graph
	lossOrder gorgonia.Nodes                    // the losses of MachineGraph.Losses
	outputs   gorgonia.Nodes                    // each once
	reads     gorgonia.Nodes                    // nodes of gorgonia.Read
	sets      gorgonia.Nodes                    // nodes of gorgonia.Set
}

// wantedGrad is a gradient that the user needs.
type wantedGrad struct {
	loss, input, deriv *gorgonia.Node // deriv is the node whose value it is
	home               bool           // it is the gradient of the input: node.Grad returns it
	optional           bool           // the input belongs to a loss outside the subgraph, which this loss stands in for
}

// BaseGraph returns the graph that the nodes of g belong to: g itself, or the graph that g is a
// subgraph of.
func BaseGraph(g *gorgonia.ExprGraph) *gorgonia.ExprGraph {
	for _, n := range g.AllNodes() {
		if base := n.Graph(); base != nil {
			return base
		}
	}
	return g
}

// userNodesOf returns the nodes of g's graph that matter to its user; the nodes of g.Keep are
// outputs, too. It reads edges from the nodes, as children does: a subgraph has none of its own.
func userNodesOf(g *Graph) (*userNodes, error) {
	base := BaseGraph(g.Model.Graph)
	u := &userNodes{all: g.Model.Graph.AllNodes(), has: make(map[*gorgonia.Node]bool)}
	for _, n := range u.all {
		u.has[n] = true
	}
	var err error
	if u.losses, err = lossTableOf(base.AllNodes()); err != nil {
		return nil, err
	}
	if u.readers = u.losses.readers; base != g.Model.Graph {
		u.readers = readersOf(u.all)
	}
	if len(g.Only) > 0 {
		u.outputs = g.Only
	} else if err := u.findOutputs(g, base); err != nil {
		return nil, err
	}
	return u, u.want(g, base)
}

// findOutputs collects the nodes that have a value after a run.
func (u *userNodes) findOutputs(g *Graph, base *gorgonia.ExprGraph) error {
	results := make(map[*gorgonia.Node]bool) // in addition to the roots
	for _, n := range g.Keep {
		results[n] = true
	}
	if base != g.Model.Graph { // the user named the roots of the subgraph
		for _, n := range g.Model.Graph.Roots() {
			results[n] = true
		}
	}
	for _, n := range u.losses.nodes {
		results[n] = results[n] || u.has[n] && n.Op() != nil
	}
	if err := u.statements(results); err != nil {
		return err
	}
	for _, n := range base.AllNodes() {
		if n.Type() != nil && (results[n] || u.has[n] && u.isRoot(n)) {
			u.outputs = append(u.outputs, n)
		}
	}
	return nil
}

// statements collects the statements, and adds their operands to results.
func (u *userNodes) statements(results map[*gorgonia.Node]bool) error {
	for _, n := range u.all {
		if _, ok := readTarget(n); ok {
			u.reads = append(u.reads, n)
			results[children(n)[0]] = true
		}
		if !isSet(n) {
			continue
		}
		to, from := children(n)[0], children(n)[1]
		switch {
		case to.Op() != nil:
			return fmt.Errorf("gorgonia.Set of %q to %q: %q is computed (%v), and only inputs can be assigned: "+
				"Set the input that it is computed from: %w", to.Name(), from.Name(), to.Name(), to.Op(), kernels.ErrUnsupported)
		case !to.Shape().Eq(from.Shape()) || to.Dtype() != from.Dtype():
			return fmt.Errorf("gorgonia.Set of %q, %v %v, to %q, %v %v: %w", to.Name(), to.Dtype(), to.Shape(),
				from.Name(), from.Dtype(), from.Shape(), kernels.ErrShape)
		}
		u.sets = append(u.sets, n)
		results[from] = true
	}
	return nil
}

// isSet reports whether n is a gorgonia.Set. Its operands are the node to assign and the value.
func isSet(n *gorgonia.Node) bool { return n.Type() == nil && isOp(n, "gorgonia.letOp") }

// want collects the gradients that the user needs. An input has the gradient of the loss that it
// belongs to, if g contains that loss or the input's gradient node. If g is a subgraph with
// neither, it has the gradient of the first loss in g that depends on it.
func (u *userNodes) want(g *Graph, base *gorgonia.ExprGraph) error {
	var inSub gorgonia.Nodes                                    // losses
	reaches := make(map[*gorgonia.Node]map[*gorgonia.Node]bool) // what these are computed from
	for _, n := range u.losses.nodes {
		if u.has[n] && base != g.Model.Graph {
			inSub, reaches[n] = append(inSub, n), operandsOf(n)
		}
	}
	only := make(map[*gorgonia.Node]bool) // what g.Only is computed from
	for _, n := range g.Only {
		maps.Copy(only, operandsOf(n))
	}
	for _, n := range base.AllNodes() {
		loss := u.losses.of[n]
		if n.Op() != nil || loss == nil {
			continue
		}
		w := wantedGrad{loss: loss, input: n, deriv: n.Deriv(), home: len(g.Only) == 0}
		switch {
		case !w.home:
			if only[w.deriv] {
				u.wanted = append(u.wanted, w)
			}
		case u.has[n] && u.has[loss], u.has[w.deriv] && Computed(w.deriv):
			u.wanted = append(u.wanted, w)
		case u.has[n] && (len(g.Accumulate) == 0 || g.Accumulate[n]):
			if i := slices.IndexFunc(inSub, func(l *gorgonia.Node) bool { return reaches[l][n] }); i >= 0 {
				w.loss, w.optional = inSub[i], true
				u.wanted = append(u.wanted, w)
			}
		}
	}
	return u.wantSecond()
}

// wantSecond collects the gradients of further losses by inputs that belong to an earlier one,
// where an output is computed from them.
func (u *userNodes) wantSecond() error {
	seen := make(map[*gorgonia.Node]bool)
	of := make(map[*gorgonia.Node]*gorgonia.Node) // inputs by gradient node
	for _, w := range u.wanted {
		of[w.deriv] = w.input
	}
	for stack := slices.Clone(u.outputs); len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		if w := of[n]; w != nil { // it gets its value, and is not computed from others
			if !w.Shape().Eq(n.Shape()) {
				return fmt.Errorf("the node that Gorgonia made for the gradient of %q has shape %v, not %v: use vm.Grad: %w",
					w.Name(), n.Shape(), w.Shape(), ErrLosses)
			}
			continue
		}
		loss, input, err := u.losses.second(n)
		switch {
		case err != nil:
			return err
		case loss != nil:
			u.wanted = append(u.wanted, wantedGrad{loss: loss, input: input, deriv: n})
		default:
			stack = append(stack, children(n)...)
		}
	}
	return nil
}

// isRoot reports whether the user made n, n is computed, and no other node reads it.
func (u *userNodes) isRoot(n *gorgonia.Node) bool {
	return Computed(n) && len(u.readers[n]) == 0 && !isBackward(n)
}

// isBackward reports whether Gorgonia made n to differentiate. Gorgonia puts such nodes into groups
// with these names; some are in no group, but other nodes read them.
func isBackward(n *gorgonia.Node) bool {
	group := reflect.ValueOf(n).Elem().FieldByName("group").String()
	return len(n.DerivOf()) > 0 || group == "gradients" || group == "undifferentiated nodes"
}

// fromGradients returns the nodes that are computed from gradients of inputs.
func (u *userNodes) fromGradients() map[*gorgonia.Node]bool {
	found := make(map[*gorgonia.Node]bool)
	var stack gorgonia.Nodes // nodes whose readers are not visited yet
	for _, w := range u.wanted {
		if Computed(w.deriv) {
			stack = append(stack, w.deriv)
		}
	}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !found[n] {
			found[n] = true
			stack = append(stack, u.losses.readers[n]...)
		}
	}
	return found
}

// ownsDeriv reports whether the node that Gorgonia made for n's gradient can hold it: the node is
// computed, has n's shape, and is the gradient of no other input. Where the gradient is added to a
// sum, the program must not read the node either: it expects the gradient alone.
func (u *userNodes) ownsDeriv(n *gorgonia.Node, sum bool) bool {
	d := n.Deriv()
	if !Computed(d) || !d.Shape().Eq(n.Shape()) || sum && slices.Contains(u.outputs, d) {
		return false
	}
	return !slices.ContainsFunc(u.wanted, func(w wantedGrad) bool { return w.input != n && w.deriv == d })
}
