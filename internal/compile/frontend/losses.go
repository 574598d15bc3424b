package frontend

import (
	"cmp"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// lossTable lists the nodes that gorgonia.Grad was called for, and the nodes that each call
// differentiated.
//
// Grad differentiates a node once: a later call that meets the node again leaves it as it is. So
// every node with a gradient belongs to one loss, the first one that was differentiated by it:
//
//	Grad(l1, w), Grad(l2, w, v)   ─►   w and the nodes between l1 and w belong to l1, v belongs to l2
//
// The graph does not hold these calls. They are read from the gradient nodes: n belongs to the loss
// of a reader p where n's gradient was computed from that of p.
type lossTable struct {
	nodes   gorgonia.Nodes                    // the losses, in the order in which they were made
	of      map[*gorgonia.Node]*gorgonia.Node // the loss that a differentiated node belongs to
	readers map[*gorgonia.Node]gorgonia.Nodes // nodes that read a node, without statements
	turn    map[*gorgonia.Node]int            // several nodes can share one gradient node: place of a node in the order in which they got it, a reader before its operand
}

// lossTableOf finds the losses of a graph with the given nodes.
func lossTableOf(all gorgonia.Nodes) (*lossTable, error) {
	l := &lossTable{of: make(map[*gorgonia.Node]*gorgonia.Node), readers: readersOf(all), turn: make(map[*gorgonia.Node]int)}
	var differentiated gorgonia.Nodes
	for _, n := range all {
		if loss, input := gradOperands(n); input != nil && input.Deriv() == n {
			l.of[input] = loss
		}
		if loss, _ := gradOperands(n.Deriv()); loss == nil && n.Deriv() != nil {
			differentiated = append(differentiated, n)
		}
		for i, x := range n.DerivOf() {
			l.turn[x] = i
		}
	}
	// Readers come after their operands.
	slices.SortStableFunc(differentiated, func(a, b *gorgonia.Node) int { return cmp.Compare(b.ID(), a.ID()) })
	for _, n := range differentiated {
		loss, err := l.find(n)
		if err != nil {
			return nil, err
		}
		if l.of[n] = loss; loss == n {
			l.nodes = append(l.nodes, n)
		}
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	for _, n := range all {
		if loss, _ := gradOperands(n); loss != nil && !slices.Contains(l.nodes, loss) {
			l.nodes = append(l.nodes, loss)
		}
	}
	slices.SortStableFunc(l.nodes, func(a, b *gorgonia.Node) int { return cmp.Compare(a.ID(), b.ID()) })
	return l, nil
}

// check returns an error for a loss whose gradients do not begin with 1: the backward pass here
// does.
func (l *lossTable) check() error {
	for _, n := range l.nodes {
		if !isOne(n.Deriv()) {
			return fmt.Errorf("the gradient of %q does not begin with 1: %w", n.Name(), ErrLosses)
		}
	}
	return nil
}

// isOne reports whether n is the constant 1.
func isOne(n *gorgonia.Node) bool {
	return n.Op() != nil && valueOf(n.Op()) != nil && scalarOf(valueOf(n.Op())) == scalarConst{1, true}
}

// readersOf returns the nodes that read each node. Statements, gorgonia.Read and gorgonia.Set, do
// not count, nor do gradients that Grad made.
func readersOf(nodes gorgonia.Nodes) map[*gorgonia.Node]gorgonia.Nodes {
	readers := make(map[*gorgonia.Node]gorgonia.Nodes)
	for _, n := range nodes {
		if loss, _ := gradOperands(n); n.Type() == nil || loss != nil {
			continue
		}
		for _, x := range children(n) {
			readers[x] = append(readers[x], n)
		}
	}
	return readers
}

// find returns the loss that n belongs to: the loss of the readers from whose gradients n's was
// computed, or n itself. All readers of n have their losses.
func (l *lossTable) find(n *gorgonia.Node) (*gorgonia.Node, error) {
	var makers gorgonia.Nodes
	for _, p := range l.readers[n] {
		if l.of[p] != nil {
			makers = append(makers, p)
		}
	}
	if isOne(n.Deriv()) { // the gradient of a loss, and what an addition passes on to its operands
		makers = slices.DeleteFunc(makers, func(p *gorgonia.Node) bool {
			return p.Deriv() != n.Deriv() || l.turn[p] > l.turn[n]
		})
	} else if len(l.among(makers)) > 1 {
		made := l.madeFrom(n.Deriv())
		makers = slices.DeleteFunc(makers, func(p *gorgonia.Node) bool { return !made[p.Deriv()] })
	}
	switch found := l.among(makers); len(found) {
	case 0:
		return n, nil
	case 1:
		return found[0], nil
	}
	return l.first(n, makers)
}

// among returns the losses of nodes, each once.
func (l *lossTable) among(nodes gorgonia.Nodes) (found gorgonia.Nodes) {
	for _, p := range nodes {
		if !slices.Contains(found, l.of[p]) {
			found = append(found, l.of[p])
		}
	}
	return found
}

// first returns the loss that n belongs to where its gradient was computed from those of readers of
// several losses (makers) that share one gradient node, as in l1 = Σ w⊙a, l2 = Σ w⊙b. It is the
// loss of the maker that got its gradient first.
func (l *lossTable) first(n *gorgonia.Node, makers gorgonia.Nodes) (*gorgonia.Node, error) {
	p := slices.MinFunc(makers, func(p, q *gorgonia.Node) int { return cmp.Compare(l.turn[p], l.turn[q]) })
	uses := 0
	for _, q := range makers {
		if l.of[q] == l.of[p] {
			uses += countOf(children(q), n)
		} else if q.Deriv() != p.Deriv() {
			uses = -1
			break
		}
	}
	// One call of gorgonia.Backpropagate for several losses adds up their gradients. A loss that is
	// computed from gradients has them among its makers, too.
	if terms(n.Deriv()) > uses {
		var names []string
		for _, loss := range l.among(makers) {
			names = append(names, loss.Name())
		}
		return nil, fmt.Errorf("the gradient of %q is not that of one loss but of %q: differentiate the sum of losses; "+
			"gradients of gradients are not supported: %w", n.Name(), names, ErrLosses)
	}
	return l.of[p], nil
}

// countOf returns how often nodes contains n.
func countOf(nodes gorgonia.Nodes, n *gorgonia.Node) (k int) {
	for _, x := range nodes {
		if x == n {
			k++
		}
	}
	return k
}

// terms returns the number of terms of a sum of gradients.
func terms(n *gorgonia.Node) int {
	k := 1
	for isOp(n, opAdd) { // Gorgonia appends each term on the right
		n = children(n)[0]
		k++
	}
	return k
}

// madeFrom goes back from the gradient node n and returns the first nodes that are gradients of
// nodes of the graph. n itself is among them if it is one.
func (l *lossTable) madeFrom(n *gorgonia.Node) map[*gorgonia.Node]bool {
	made := make(map[*gorgonia.Node]bool)
	seen := map[*gorgonia.Node]bool{n: true}
	for stack := (gorgonia.Nodes{n}); len(stack) > 0; {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if len(x.DerivOf()) > 0 {
			made[x] = true
			if x != n {
				continue
			}
		}
		if l.of[x] != nil || x.Deriv() != nil { // a node of the forward pass
			continue
		}
		for _, c := range children(x) {
			if !seen[c] {
				seen[c] = true
				stack = append(stack, c)
			}
		}
	}
	return made
}

// An input belongs to the first loss that it was differentiated by. If n is its gradient by a
// further loss, from gorgonia.Grad or Grad, second returns that loss and the input, else nil. Such
// a node must not be computed as the graph has it: Gorgonia leaves terms out.
func (l *lossTable) second(n *gorgonia.Node) (loss, input *gorgonia.Node, err error) {
	if loss, input := gradOperands(n); loss != nil && input.Deriv() != n {
		return loss, input, nil
	}
	if !isBackward(n) || len(n.DerivOf()) > 0 || slices.ContainsFunc(l.readers[n], isBackward) {
		return nil, nil, nil
	}
	for d := range l.madeFrom(n) {
		for _, p := range d.DerivOf() {
			for _, w := range children(p) {
				if w.Op() != nil || l.of[w] == nil || l.of[w] == l.of[p] || w.Dtype() != n.Dtype() || !w.Shape().Eq(n.Shape()) {
					continue
				}
				if input != nil && (loss != l.of[p] || input != w) {
					return nil, nil, fmt.Errorf("%q is a gradient of %q or %q by %q or %q: make a machine of its loss alone, "+
						"with SubgraphRoots: %w", n.Name(), loss.Name(), l.of[p].Name(), input.Name(), w.Name(), ErrLosses)
				}
				loss, input = l.of[p], w
			}
		}
	}
	return loss, input, nil
}

// GradientError is about a gradient that is differentiated again, or read where only a machine computes
// gradients. It wraps ErrLosses.
type GradientError struct {
	Node string // name of the node that is computed from a gradient
	Of   string // name of the node whose gradient it is; empty: not known
}

func (e *GradientError) Error() string {
	of := "gradients"
	if e.Of != "" {
		of = fmt.Sprintf("the gradient of %q", e.Of)
	}
	return fmt.Sprintf("%q is computed from %s: gradients of gradients are not supported: "+
		"write the gradient as a formula, with operations of trainer/layers", e.Node, of)
}

// Unwrap returns ErrLosses.
func (e *GradientError) Unwrap() error { return ErrLosses }

// CheckForward returns a *GradientError if one of roots is computed from gradients, of gorgonia.Grad or
// Grad, or is one. Roots may be nil.
func CheckForward(roots ...*gorgonia.Node) error {
	seen := make(map[*gorgonia.Node]bool)
	stack := slices.DeleteFunc(slices.Clone(roots), func(n *gorgonia.Node) bool { return n == nil })
	for _, n := range stack {
		if isGradient(n) {
			return &GradientError{Node: n.Name(), Of: gradientOf(n)}
		}
	}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, x := range children(n) {
			if isGradient(x) {
				return &GradientError{Node: n.Name(), Of: gradientOf(x)}
			}
			if !seen[x] {
				seen[x] = true
				stack = append(stack, x)
			}
		}
	}
	return nil
}

// isGradient reports whether n is a gradient, or Gorgonia made it to compute one. An input or a constant
// can be the gradient of a node and be read as itself.
func isGradient(n *gorgonia.Node) bool {
	loss, _ := gradOperands(n)
	return loss != nil || Computed(n) && isBackward(n)
}

// gradientOf returns the name of the node whose gradient n is, empty if it is only a part of one.
func gradientOf(n *gorgonia.Node) string {
	if _, input := gradOperands(n); input != nil {
		return input.Name()
	}
	for _, x := range n.DerivOf() {
		return x.Name()
	}
	return ""
}
