package identity

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// suspect describes an op whose hash leaves out a part that nothing else in the node determines.
// The other ops of v0.9.18 hash all their parts, or the node's type, shape and operands determine
// what they leave out:
//
//	elemBinOp, elemUnaryOp    retSame and numericResult show in the type
//	sumOp, maxOp, repeatOp    the number of dimensions, and of repeats, shows in the shape
//	concatOp                  the pieces are operands
//	tensordotOp, sizeOp, transposeOp, reshapeOp, linAlgBinOp, byIndicesOp, upsampleOp: nothing left out
type suspect struct {
	leavesOut string
	cure      string
	// possible reports whether another op of the same hash would give a node of the same shape. Nil:
	// there always is one.
	possible func(n *gorgonia.Node) bool
	// lone: a node with one reader is a suspect, too. Otherwise one with two: two results are usually
	// read in two ways.
	lone bool
}

// Cures of nodes that differ in operands of equal hashes.
const (
	byChance   = "rename an input or a parameter, which changes the hashes"
	feedRandom = "make the random numbers inputs of the model"
)

// cureOf returns the cure where one of the nodes is to blame: all random nodes of a shape have one
// hash.
func cureOf(nodes gorgonia.Nodes) string {
	if slices.ContainsFunc(nodes, func(n *gorgonia.Node) bool { return typeName(n) == "gorgonia.randomOp" }) {
		return feedRandom
	}
	return byChance
}

const useLayers = "use that of trainer/layers, which is never merged"

// suspects has the ops whose hashes leave something out, by Go type.
var suspects = map[string]suspect{
	"*gorgonia.sliceOp": {leavesOut: "may be slices whose bounds differ by a multiple of 256", possible: otherSlice, lone: true,
		cure: "slice with net.Slice or net.Split of trainer/layers"},
	"gorgonia.constantTensor": {leavesOut: "may be constants that differ where Gorgonia's printed form leaves elements out", possible: shortened, lone: true,
		cure: "make it with net.Constant of trainer/layers"},
	"*gorgonia.softmaxOp": {leavesOut: "may be SoftMax and LogSoftMax, or Log(SoftMax), of one node",
		cure: "use net.Softmax and net.CrossEntropy of trainer/layers"},
	"*gorgonia.dropoutOp": {leavesOut: "may be two dropouts of one node", cure: "use net.Dropout of trainer/layers"},
	"*gorgonia.BatchNormOp": {leavesOut: "may be batch normalizations of one node whose momentum or epsilon print alike",
		cure: "use net.BatchNorm of trainer/layers"},
	"*gorgonia.GroupNormOp": {leavesOut: "may be group normalizations of one node with other epsilons",
		cure: "use net.GroupNorm of trainer/layers"},
	"gorgonia.im2colOp": {leavesOut: "may be im2col, or convolutions, of one node with other dilations", possible: strided,
		cure: "use net.Conv of trainer/layers"},
	"*gorgonia.maxPoolOp": {leavesOut: "may be poolings of one node with other paddings", possible: strided,
		cure: "use net.MaxPool of trainer/layers"},
	"*gorgonia.avgPoolOp": {leavesOut: "may be poolings of one node with other paddings", possible: strided,
		cure: "use net.AvgPool of trainer/layers"},
	"*gorgonia.clampOp":     {leavesOut: "may be clamps of one node whose limits differ after the sixth decimal", cure: useLayers},
	"*gorgonia.sparsemaxOp": {leavesOut: "may be sparsemax of one node along other axes", cure: "transpose one of the operands first"},
	"*gorgonia.ctcLossOp":   {leavesOut: "may be CTC losses of the same nodes with other reductions", cure: "use one reduction in a graph"},
	"*gorgonia.yoloOp":      {leavesOut: "may be YOLO layers of one node with other parameters", cure: "give each its own operand"},
	"gorgonia.randomOp": {leavesOut: "may be several random nodes: one without a name is merged with the others of its shape",
		possible: unnamed, lone: true, cure: "call gorgonia.WithName(name)(node) directly after making it"},
}

// unnamedInput describes inputs, which Gorgonia identifies by name, type and shape.
var unnamedInput = suspect{leavesOut: "may be several inputs: one without a name is merged with the others of its type and shape",
	cure: "name each with gorgonia.WithName", possible: unnamed, lone: true}

// Suspects returns the nodes of g that may well stand for two, in the order in which they were made:
// those that were made more than once, as the graph remembers, and those of which it does not show
// whether they were. It leaves out nodes that Gorgonia made to differentiate.
func Suspects(g *gorgonia.ExprGraph) []Doubt {
	if err := checkVersion(); err != nil {
		return []Doubt{{Node: "every node", What: "may be several", Cure: err.Error()}}
	}
	uses := countUses(g)
	made := newCreations()
	found := equalHashes(g)
	for _, n := range g.AllNodes() {
		s := suspectOf(n)
		if s == nil || !s.lone && uses[n] < 2 {
			continue
		}
		if made.of(n) > 1 || valueOf(n) != nil || uses[n] > 1 && logarithm(n) {
			found = append(found, Doubt{Node: nameOf(n), What: s.leavesOut, Cure: s.cure})
		}
	}
	return found
}

// logarithm reports whether n is the logarithm of a softmax: Log may have made it one, for all readers
// of the softmax.
func logarithm(n *gorgonia.Node) bool {
	return typeName(n) == "*gorgonia.softmaxOp" && reflect.ValueOf(n.Op()).Elem().FieldByName("isLog").Bool()
}

// creations counts how often nodes were made. Gorgonia adds the edges of a node to its graph each time
// that it makes the node, also if it then takes an equal one instead; a node without operands it adds to
// the leaves. To differentiate, it moves edges that are there twice behind the end of the list, where
// edges of gradients overwrite them.
type creations struct {
	leaves map[*gorgonia.ExprGraph]map[*gorgonia.Node]int
}

func newCreations() *creations {
	return &creations{leaves: make(map[*gorgonia.ExprGraph]map[*gorgonia.Node]int)}
}

// of returns how often n was made; many times where the graph does not show it. It is not known of
// constants.
func (c *creations) of(n *gorgonia.Node) int {
	g := n.Graph() // the graph of all nodes, of which others may be parts
	if g == nil {
		return math.MaxInt
	}
	operands := childrenOf(n)
	if len(operands) == 0 {
		return c.leaf(g, n)
	}
	to, err := field[map[*gorgonia.Node]gorgonia.Nodes](g, "to")
	if err != nil || slices.ContainsFunc((*to)[operands[0]], movedEdges) {
		return math.MaxInt
	}
	readers := (*to)[operands[0]]
	readers = readers[:cap(readers)]
	times := func(nodes gorgonia.Nodes, n *gorgonia.Node) (k int) {
		for _, x := range nodes {
			if x == n {
				k++
			}
		}
		return k
	}
	return times(readers, n) / times(operands, operands[0])
}

// movedEdges reports whether gorgonia.Grad made n, and so has moved edges. vm.Grad moves none: the op of
// its nodes is not Gorgonia's.
func movedEdges(n *gorgonia.Node) bool {
	return isBackward(n) && strings.HasPrefix(strings.TrimPrefix(typeName(n), "*"), "gorgonia.")
}

// leaf is of for a node without operands.
func (c *creations) leaf(g *gorgonia.ExprGraph, n *gorgonia.Node) int {
	if c.leaves[g] == nil {
		c.leaves[g] = make(map[*gorgonia.Node]int)
		leaves, err := field[gorgonia.Nodes](g, "leaves")
		if err != nil {
			return math.MaxInt
		}
		for _, x := range *leaves {
			c.leaves[g][x]++
		}
	}
	return c.leaves[g][n]
}

// equalHashes returns nodes that Gorgonia kept apart although their hashes are equal: their ops
// differ. Functions of them have equal hashes too, and are merged. Nodes of other shapes than the
// first have other functions.
func equalHashes(g *gorgonia.ExprGraph) (found []Doubt) {
	evac, err := field[map[uint32]gorgonia.Nodes](g, "evac")
	if err != nil {
		return []Doubt{{Node: "every node", What: "may be several", Cure: err.Error()}}
	}
	for _, n := range g.AllNodes() {
		list := (*evac)[n.Hashcode()]
		if len(list) < 2 || list[0] == n || n.Type() != list[0].Type() || !n.Shape().Eq(list[0].Shape()) || isBackward(n) {
			continue
		}
		found = append(found, Doubt{Node: nameOf(n), Cure: cureOf(list),
			What: fmt.Sprintf("has the hash of %q, so that functions of both may be one node", nameOf(list[0]))})
	}
	return found
}

// manyNodes is the size from which on a graph needs to be watched although no op of it leaves
// anything out: in n nodes two hashes are equal by chance with a probability below n²/2³³, here 1 in
// 8,600.
const manyNodes = 1000

// Doubtful reports whether nodes of g may stand for two, however unlikely that is, so that Watch is
// worth its time.
func Doubtful(g *gorgonia.ExprGraph) bool {
	all := g.AllNodes()
	return len(all) >= manyNodes || checkVersion() != nil || len(equalHashes(g)) > 0 ||
		slices.ContainsFunc(all, func(n *gorgonia.Node) bool { return suspectOf(n) != nil })
}

// suspectOf returns what n's op leaves out, nil if another op would show, or if Gorgonia made n to
// differentiate.
func suspectOf(n *gorgonia.Node) *suspect {
	s, ok := suspects[typeName(n)]
	if n.Op() == nil {
		s, ok = unnamedInput, true
	}
	if !ok || s.possible != nil && !s.possible(n) || isBackward(n) {
		return nil
	}
	return &s
}

// nameOf returns the name of n for errors. Gorgonia names a constant by its elements.
func nameOf(n *gorgonia.Node) string {
	name := givenName(n)
	switch {
	case valueOf(n) != nil && len(n.Shape()) > 0 && strings.ContainsAny(name, "[⎡"):
		return fmt.Sprintf("constant %v %v", n.Dtype(), n.Shape())
	case name == "" && n.Op() == nil:
		return fmt.Sprintf("input %v %v", n.Dtype(), n.Shape())
	}
	return n.Name()
}

// countUses counts the operands that each node is, and the reads of it. Nodes that Gorgonia made to
// differentiate are not counted. A product of x with a comparison of x, which is how Gorgonia writes a
// ReLU, uses x once.
func countUses(g *gorgonia.ExprGraph) map[*gorgonia.Node]int {
	uses := make(map[*gorgonia.Node]int)
	for _, n := range g.AllNodes() {
		if isBackward(n) {
			continue
		}
		operands := childrenOf(n)
		compared := make(map[*gorgonia.Node]bool) // by operands that are comparisons with a constant
		for _, o := range operands {
			if comparison(o) {
				for _, x := range childrenOf(o) {
					compared[x] = true
				}
			}
		}
		for _, x := range operands {
			if !compared[x] {
				uses[x]++
			}
		}
	}
	return uses
}

// comparison reports whether n is an elementwise function of two operands of which one is a constant.
func comparison(n *gorgonia.Node) bool {
	return typeName(n) == "gorgonia.elemBinOp" &&
		slices.ContainsFunc(childrenOf(n), func(o *gorgonia.Node) bool { return valueOf(o) != nil })
}

// isBackward reports whether Gorgonia made n to differentiate: it puts such nodes into groups with
// these names.
func isBackward(n *gorgonia.Node) bool {
	group, err := field[string](n, "group")
	return err == nil && (len(n.DerivOf()) > 0 || *group == "gradients" || *group == "undifferentiated nodes")
}

// unnamed reports whether the user gave n no name.
func unnamed(n *gorgonia.Node) bool { return givenName(n) == "" }

// shortened reports whether a constant's printed form, which Gorgonia hashes and takes for its name,
// leaves elements out: it has fewer words than the constant has elements.
func shortened(n *gorgonia.Node) bool {
	v := valueOf(n)
	words := strings.FieldsFunc(fmt.Sprint(v), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("[]⎡⎤⎢⎥⎣⎦", r) })
	words = slices.DeleteFunc(words, func(w string) bool {
		return !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	})
	return len(words) < v.Shape().TotalSize()
}

// strided reports whether a window has a stride. Without one, its dilation and its padding at the
// bottom and the right, which the hash leaves out, follow from the shapes.
func strided(n *gorgonia.Node) bool {
	op := reflect.Indirect(reflect.ValueOf(n.Op()))
	h, w := op.FieldByName("strideH"), op.FieldByName("strideW")
	return !h.IsValid() || !w.IsValid() || h.Int() > 1 || w.Int() > 1
}

// otherSlice reports whether another slice of n's operand has the hash and the shape of n. The hash
// has the bounds and the step modulo 256.
func otherSlice(n *gorgonia.Node) bool {
	s := n.Op().(interface{ IsSlice() tensor.Slice }).IsSlice()
	along := reflect.ValueOf(n.Op()).Elem().FieldByName("along")
	if s == nil {
		return false // the whole axis, which is hashed as ":"
	}
	shape := childrenOf(n)[0].Shape()
	if !along.IsValid() || int(along.Int()) >= len(shape) {
		return true
	}
	length := shape[along.Int()]
	if length <= 256 {
		return false // start 0..255 and end 1..256 are all different
	}
	end := min(s.End(), length)
	for start := s.Start() % 256; start < length; start += 256 {
		for e := s.End() % 256; e <= length; e += 256 {
			for step := s.Step() % 256; step <= e-start; step += 256 {
				same := start == s.Start() && e == s.End() && step == s.Step()
				if e > start && !same && elements(start, e, step) == elements(s.Start(), end, s.Step()) {
					return true
				}
			}
		}
	}
	return false
}

// elements returns the number of elements of a slice. A step of 0 is one of 1.
func elements(start, end, step int) int { return (end - start + max(step, 1) - 1) / max(step, 1) }

// unnamedLeaves returns the suspects that Watch cannot clear: inputs and random nodes.
func unnamedLeaves(g *gorgonia.ExprGraph) (found []Doubt) {
	for _, n := range g.AllNodes() {
		if s := suspectOf(n); s != nil && isLeaf(n) {
			found = append(found, Doubt{Node: nameOf(n), What: s.leavesOut, Cure: s.cure})
		}
	}
	return found
}
