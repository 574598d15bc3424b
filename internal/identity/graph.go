package identity

import (
	"errors"
	"fmt"
	"hash"
	"runtime"
	"slices"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A watchedGraph is a Gorgonia graph that merges nothing.
//
// Gorgonia looks a new node up by its hash. If nodes of that hash differed before, it compares the
// new one with each of a list, and appends it if none is equal:
//
//	byHash[hash] == nil  ─►  for e in evac[hash] { if equal(n, e) return e };  append n to evac[hash]
//
// Here every list begins with a sentinel, for each hash of the first graph. It equals nothing, and
// the comparison calls the Hashcode of its op. At this moment the graph takes the other nodes out of
// the list, also of the iteration that has begun, so that the new node finds nothing equal and is
// appended. The node is looked at when the next sentinel is asked.
//
// Gorgonia adds the operands of each new node again. They are appended in the same way, and settle
// takes them out again. It keeps ids as they are in the first graph, because names contain them: a
// node that the first graph has merged gets the id of the node that it was merged with.
type watchedGraph struct {
	g       *gorgonia.ExprGraph
	all     *gorgonia.Nodes
	byID    *map[int64]int
	byHash  *map[uint32]*gorgonia.Node
	evac    *map[uint32]gorgonia.Nodes
	counter *uint

	slots      map[uint32]*slot
	pending    *slot                             // the slot of the latest node; nil: it is settled
	origin     string                            // the Gorgonia function that made the latest node
	nodes      gorgonia.Nodes                    // all nodes of all slots, in the order in which they were made
	ids        map[*gorgonia.Node]int64          // of nodes of slots
	mergedInto map[*gorgonia.Node]*gorgonia.Node // the node that the first graph has instead; absent: itself
	origins    map[*gorgonia.Node]string         // of softmax nodes
	constants  map[string]*gorgonia.Node         // the first of each name
}

// slot holds the nodes of one hash.
type slot struct {
	hash     uint32
	softmax  bool // the first graph has a softmax of this hash
	sentinel *gorgonia.Node
	nodes    gorgonia.Nodes
}

// sentinelOp is the op of a sentinel. Gorgonia compares its hash with that of a new node.
type sentinelOp struct {
	graph *watchedGraph
	slot  *slot
}

var errSentinel = errors.New("a sentinel is not executed")

func (o *sentinelOp) Arity() int                                            { return 0 }
func (o *sentinelOp) Type() hm.Type                                         { return tensor.Float64 }
func (o *sentinelOp) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) { return nil, errSentinel }
func (o *sentinelOp) Do(...gorgonia.Value) (gorgonia.Value, error)          { return nil, errSentinel }
func (o *sentinelOp) ReturnsPtr() bool                                      { return false }
func (o *sentinelOp) CallsExtern() bool                                     { return false }
func (o *sentinelOp) OverwritesInput() int                                  { return -1 }
func (o *sentinelOp) WriteHash(h hash.Hash)                                 { fmt.Fprint(h, o.slot.hash) }
func (o *sentinelOp) String() string                                        { return "sentinel" }

// Hashcode is called when a node of the slot's hash is added. Whatever it returns, the nodes differ:
// no node has the sentinel's type.
func (o *sentinelOp) Hashcode() uint32 {
	o.graph.prepare(o.slot)
	return o.slot.hash
}

// newWatchedGraph returns an empty graph that keeps nodes of these hashes apart. The value of a hash
// is the Go type of an op that has it.
func newWatchedGraph(hashes map[uint32]string) (*watchedGraph, error) {
	w := &watchedGraph{
		g: gorgonia.NewGraph(), slots: make(map[uint32]*slot, len(hashes)), ids: make(map[*gorgonia.Node]int64),
		mergedInto: make(map[*gorgonia.Node]*gorgonia.Node), origins: make(map[*gorgonia.Node]string),
		constants: make(map[string]*gorgonia.Node),
	}
	var errs [5]error
	w.all, errs[0] = field[gorgonia.Nodes](w.g, "all")
	w.byID, errs[1] = field[map[int64]int](w.g, "byID")
	w.byHash, errs[2] = field[map[uint32]*gorgonia.Node](w.g, "byHash")
	w.evac, errs[3] = field[map[uint32]gorgonia.Nodes](w.g, "evac")
	w.counter, errs[4] = field[uint](w.g, "counter")
	if err := errors.Join(append(errs[:], checkVersion())...); err != nil {
		return nil, err
	}
	elsewhere := gorgonia.NewGraph()
	for h, op := range hashes {
		s := &slot{hash: h, softmax: op == "*gorgonia.softmaxOp"}
		// The dimensions are impossible, so that the type is that of no other node.
		s.sentinel = gorgonia.NewUniqueNode(gorgonia.WithType(gorgonia.TensorType{Dims: -1, Of: tensor.Float64}),
			gorgonia.WithOp(&sentinelOp{w, s}), gorgonia.In(elsewhere))
		(*w.byHash)[h], (*w.evac)[h], w.slots[h] = nil, gorgonia.Nodes{s.sentinel}, s
	}
	return w, nil
}

// prepare empties slot s for the node that is about to be appended to it.
func (w *watchedGraph) prepare(s *slot) {
	w.settle()
	w.pending = s
	if w.origin = ""; s.softmax { // walking the stack takes longer than all the rest
		w.origin = softmaxMaker()
	}
	// Gorgonia searches the graph for a new id from the start unless it finds it here.
	(*w.byID)[int64(*w.counter)] = len(*w.all)
}

// softmaxMaker returns the function of Gorgonia that makes a softmax and is being executed.
func softmaxMaker() string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if name, ok := strings.CutPrefix(f.Function, "gorgonia.org/gorgonia."); ok && (name == "SoftMax" || name == "LogSoftMax") {
			return name
		}
		if !more {
			return ""
		}
	}
}

// settle looks at the node that was appended to the pending slot, if any, and takes it out.
func (w *watchedGraph) settle() {
	s := w.pending
	if s == nil {
		return
	}
	w.pending = nil
	list := (*w.evac)[s.hash]
	if len(list) < 2 {
		return
	}
	n := list[1]
	list[1] = s.sentinel // Gorgonia may be iterating over the list
	(*w.evac)[s.hash] = list[:1]
	if id, again := w.ids[n]; again {
		w.drop(n, id)
		return
	}
	if w.origin != "" {
		w.origins[n] = w.origin
	}
	w.nodes = append(w.nodes, n)
	if first := w.firstLike(s, n); first != nil {
		w.mergedInto[n] = first
		w.drop(n, *idOf(first))
	}
	w.ids[n] = *idOf(n)
	s.nodes = append(s.nodes, n)
}

// firstLike returns the node that Gorgonia would merge n with, nil if there is none.
func (w *watchedGraph) firstLike(s *slot, n *gorgonia.Node) *gorgonia.Node {
	if valueOf(n) != nil { // constants of the same name are merged too
		if first := w.constants[givenName(n)]; first != nil {
			return first
		}
		w.constants[givenName(n)] = n
	}
	i := slices.IndexFunc(s.nodes, func(m *gorgonia.Node) bool { return gorgoniaEqual(m, n) })
	if i < 0 {
		return nil
	}
	return s.nodes[i]
}

// drop removes the latest occurrence of n from the graph and sets its id. The nodes after it, which
// are not in slots, get the ids that they have in the first graph.
func (w *watchedGraph) drop(n *gorgonia.Node, id int64) {
	all := *w.all
	i := len(all) - 1
	for i >= 0 && all[i] != n {
		i--
	}
	if i < 0 {
		return
	}
	*idOf(n) = id
	for k := i + 1; k < len(all); k++ {
		*idOf(all[k])--
		(*w.byID)[*idOf(all[k])] = k - 1
	}
	*w.all = slices.Delete(all, i, i+1)
	*w.counter--
}

// gorgoniaEqual reports whether Gorgonia takes two nodes of the same hash for one. It does not
// compare their operands.
func gorgoniaEqual(a, b *gorgonia.Node) bool {
	return !isLeaf(a) && !isLeaf(b) && a.Op().Hashcode() == b.Op().Hashcode() &&
		len(childrenOf(a)) == len(childrenOf(b)) && a.Type() == b.Type() && a.Shape().Eq(b.Shape())
}
