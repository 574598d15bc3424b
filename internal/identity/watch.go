package identity

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
)

// Build adds the nodes of a program to the empty graph g, and returns those whose values the program
// reads.
type Build func(g *gorgonia.ExprGraph) (read gorgonia.Nodes, err error)

// Watch returns the nodes of g that Gorgonia merged with others although they differ, and those that
// only their names identify and that have none. build must add the nodes of g.
//
// If build fails, or adds other nodes than those of g, nothing is known about the nodes of g: Watch
// returns all that are suspect.
func Watch(g *gorgonia.ExprGraph, build Build) ([]Doubt, error) {
	w, err := newWatchedGraph(watchedHashes(g))
	if err != nil {
		return nil, err
	}
	read, err := build(w.g)
	w.finish()
	if err != nil {
		return Suspects(g), nil
	}
	uses := usesFrom(read)
	found := append(w.merged(uses), w.rewritten(uses)...)
	if !w.complete() && len(found) == 0 {
		return Suspects(g), nil
	}
	return append(unnamedLeaves(g), found...), nil
}

// finish settles the latest node. Constants are in no graph again: the program may use them in the
// next one.
func (w *watchedGraph) finish() {
	w.settle()
	for _, n := range w.nodes {
		if valueOf(n) != nil && n.Graph() == nil {
			*idOf(n) = -1
		}
	}
}

// watchedHashes returns the hashes of the nodes that are to be kept apart, and the Go types of their
// ops.
//
// Gorgonia copies a constant when it is added first. A watched one is not copied and belongs to no
// graph, as the program made it. Left to Gorgonia are scalars, which include constants of Gorgonia's
// own that all graphs share, and operands of ops that have no other operand to take the graph from.
func watchedHashes(g *gorgonia.ExprGraph) map[uint32]string {
	alone := make(map[*gorgonia.Node]bool)
	for _, n := range g.AllNodes() {
		in := childrenOf(n)
		for _, x := range in {
			if valueOf(x) == nil {
				in = nil
			}
		}
		for _, x := range in {
			alone[x] = true
		}
	}
	hashes := make(map[uint32]string)
	for _, n := range g.AllNodes() {
		if !isLeaf(n) && !isStatement(n) && !alone[n] && typeName(n) != "gorgonia.constantScalar" {
			hashes[n.Hashcode()] = typeName(n)
		}
	}
	return hashes
}

// complete reports whether all nodes of the graph were watched that should be.
func (w *watchedGraph) complete() bool {
	for _, n := range *w.all {
		if !isLeaf(n) && !isStatement(n) && valueOf(n) == nil && w.slots[n.Hashcode()] == nil {
			return false
		}
	}
	return true
}

// merged compares the nodes that the first graph has merged, if the program uses them. Of merged
// nodes whose operands are merged it returns the operands only.
func (w *watchedGraph) merged(uses map[*gorgonia.Node]int) []Doubt {
	same := make(map[*gorgonia.Node]*gorgonia.Node) // the first node with the same op and operands
	rep := func(n *gorgonia.Node) *gorgonia.Node {
		if m := same[n]; m != nil {
			return m
		}
		return n
	}
	var found []Doubt
	seen := make(map[uint32]gorgonia.Nodes) // nodes that differ, by hash
	for _, n := range w.nodes {
		for _, m := range seen[n.Hashcode()] {
			if sameNode(m, n, rep) {
				same[n] = m
				break
			}
		}
		if same[n] == nil {
			seen[n.Hashcode()] = append(seen[n.Hashcode()], n)
		}
		first := w.mergedInto[n]
		if first == nil || uses[n] == 0 || rep(first) == rep(n) || w.operandsMerged(first, n, rep) {
			continue
		}
		found = append(found, describe(first, n))
	}
	return found
}

// sameNode reports whether a and b are computed in the same way from the same operands.
func sameNode(a, b *gorgonia.Node, rep func(*gorgonia.Node) *gorgonia.Node) bool {
	in, other := childrenOf(a), childrenOf(b)
	if len(in) != len(other) || a.Type() != b.Type() || !a.Shape().Eq(b.Shape()) || !sameOp(a, b) {
		return false
	}
	for i := range in {
		if rep(in[i]) != rep(other[i]) {
			return false
		}
	}
	return true
}

// operandsMerged reports whether a and b differ only in operands that are merged themselves.
func (w *watchedGraph) operandsMerged(a, b *gorgonia.Node, rep func(*gorgonia.Node) *gorgonia.Node) bool {
	into := func(n *gorgonia.Node) *gorgonia.Node {
		if m := w.mergedInto[n]; m != nil {
			return m
		}
		return n
	}
	in, other := childrenOf(a), childrenOf(b)
	if len(in) != len(other) || !sameOp(a, b) {
		return false
	}
	for i := range in {
		if rep(in[i]) != rep(other[i]) && into(in[i]) != into(other[i]) {
			return false
		}
	}
	return true
}

// sameOp reports whether the ops of a and b are equal in all their parts. A dropout is equal to no
// other: each has random numbers of its own.
func sameOp(a, b *gorgonia.Node) bool {
	if x, y := valueOf(a), valueOf(b); x != nil && y != nil {
		return sameValue(x, y)
	}
	return reflect.DeepEqual(a.Op(), b.Op())
}

// sameValue reports whether two constants have the same elements, bit for bit.
func sameValue(a, b gorgonia.Value) bool {
	x, y := reflect.ValueOf(a.Data()), reflect.ValueOf(b.Data())
	if x.Type() != y.Type() || !a.Shape().Eq(b.Shape()) {
		return false
	}
	if x.Kind() != reflect.Slice {
		return a.Data() == b.Data()
	}
	for i := range x.Len() {
		p, q := x.Index(i), y.Index(i)
		if p.CanFloat() && math.Float64bits(p.Float()) != math.Float64bits(q.Float()) || !p.CanFloat() && !p.Equal(q) {
			return false
		}
	}
	return true
}

// describe names a node that was merged with an earlier one.
func describe(first, n *gorgonia.Node) Doubt {
	d := Doubt{Node: nameOf(first), Cure: useLayers}
	if s, ok := suspects[typeName(n)]; ok {
		d.Cure = s.cure
	}
	switch a, b := opString(first), opString(n); {
	case a != b:
		d.What = fmt.Sprintf("was merged with another node: %s and %s of the same operands have one hash", a, b)
	case valueOf(n) != nil:
		d.What = "was merged with a constant of other elements, which prints alike or has its name"
	case sameOp(first, n):
		d.What = fmt.Sprintf("was merged with %s of other operands, which have the same 32-bit hash", b)
		d.Cure = cureOf(childrenOf(n))
	default:
		d.What = fmt.Sprintf("was merged with another %s of the same operands, whose parameters differ", b)
	}
	return d
}

// opString writes the op of n with the parts that its String leaves out.
func opString(n *gorgonia.Node) string {
	op := reflect.Indirect(reflect.ValueOf(n.Op()))
	text := n.Op().String()
	if op.Kind() != reflect.Struct {
		return text
	}
	var parts []string
	for _, name := range []string{"isLog", "probability", "momentum", "epsilon", "dilationH", "dilationW", "padSouth", "padEast", "axis"} {
		if f := op.FieldByName(name); f.IsValid() {
			parts = append(parts, fmt.Sprintf("%s %v", name, f))
		}
	}
	if parts == nil {
		return text
	}
	return text + " (" + strings.Join(parts, ", ") + ")"
}

// rewritten returns the nodes of gorgonia.SoftMax that gorgonia.Log has turned into a logarithm, if
// something else reads them too: it gets the logarithm.
func (w *watchedGraph) rewritten(uses map[*gorgonia.Node]int) []Doubt {
	var found []Doubt
	for _, n := range w.nodes {
		if w.origins[n] != "SoftMax" || typeName(n) != "*gorgonia.softmaxOp" || uses[n] < 2 || w.mergedInto[n] != nil {
			continue
		}
		if reflect.ValueOf(n.Op()).Elem().FieldByName("isLog").Bool() {
			found = append(found, Doubt{Node: nameOf(n), What: "was turned into its logarithm by gorgonia.Log, for all its readers",
				Cure: suspects["*gorgonia.softmaxOp"].cure})
		}
	}
	return found
}

// usesFrom counts the reads of each node that some nodes need: by the program and by the nodes that
// they need. Log leaves the nodes that it replaces in the graph.
func usesFrom(read gorgonia.Nodes) map[*gorgonia.Node]int {
	uses := make(map[*gorgonia.Node]int)
	stack := slices.Clone(read)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n == nil {
			continue
		}
		if uses[n]++; uses[n] == 1 {
			stack = append(stack, childrenOf(n)...)
		}
	}
	return uses
}
