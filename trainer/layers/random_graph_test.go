package layers_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// statement is a line of a random graph: an operation, the numbers of the statements that are its
// operands, and its other arguments.
type statement struct {
	Op     string    `json:"op"`
	In     []int     `json:"in,omitempty"`
	Ints   []int     `json:"ints,omitempty"`
	Floats []float64 `json:"floats,omitempty"`
}

// randomGraph is a list of statements, operands first. Its loss is the sum of the elements of all
// statements that no other reads, each times a weight.
type randomGraph []statement

// leaf is the operation of a parameter: Ints are its shape, Floats its elements.
const leaf = "param"

// operation is an operation of random graphs.
type randomOp struct {
	// draw returns the arguments over operands of the grower, or false.
	draw func(g *grower) (statement, bool)
	// build adds the node.
	build func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node
	// value computes the result in plain Go.
	value func(s statement, in []array) array
	// code is the call as Go text over the names of the operands.
	code func(s statement, in []string) string
	// smooth reports whether values are away from jumps and kinks: there rounding of float32 would
	// decide. Nil: there are none.
	smooth func(s statement, in []array) bool
	flat   bool // the gradient is 0
	// constant lists operands whose gradient is 0.
	constant []int
}

// values evaluates the graph in float64, with the elements of parameters from override if it has
// them. round rounds every element.
func (g randomGraph) values(override map[int][]float64, round func(float64) float64) []array {
	all := make([]array, len(g))
	for i, s := range g {
		if s.Op == leaf {
			x := s.Floats
			if o, ok := override[i]; ok {
				x = o
			}
			all[i] = array{s.Ints, x}
			continue
		}
		y := randomOps[s.Op].value(s, g.operands(all, i))
		for k, v := range y.x {
			y.x[k] = round(v)
		}
		all[i] = y
	}
	return all
}

func exact(x float64) float64 { return x }

func (g randomGraph) operands(all []array, i int) []array {
	in := make([]array, len(g[i].In))
	for k, j := range g[i].In {
		in[k] = all[j]
	}
	return in
}

// roots returns the numbers of the statements that no other reads.
func (g randomGraph) roots() (roots []int) {
	read := make([]bool, len(g))
	for _, s := range g {
		for _, i := range s.In {
			read[i] = true
		}
	}
	for i, r := range read {
		if !r {
			roots = append(roots, i)
		}
	}
	return roots
}

// learned returns, by statement, whether the loss depends on it through operations with a gradient.
func (g randomGraph) learned() []bool {
	learned := make([]bool, len(g))
	for _, i := range g.roots() {
		learned[i] = true
	}
	for i := len(g) - 1; i >= 0; i-- {
		op := randomOps[g[i].Op]
		for n, k := range g[i].In {
			learned[k] = learned[k] || learned[i] && !op.flat && !slices.Contains(op.constant, n)
		}
	}
	return learned
}

// weight is the weight in the loss of element k of a root.
func weight(k int) float64 { return float64(float32(math.Cos(float64(k) + 0.5))) }

// loss is the loss of values.
func (g randomGraph) loss(all []array) (sum float64) {
	for _, i := range g.roots() {
		for k, v := range all[i].x {
			sum += v * weight(k)
		}
	}
	return sum
}

// built is a random graph in a net.
type built struct {
	net    *layers.Net
	nodes  gorgonia.Nodes // of the statements
	leaves gorgonia.Nodes // parameters that have a gradient
	at     []int          // their statements
	loss   *gorgonia.Node
}

// layersOf is the number of layers that the nodes of a graph are divided among, by their names.
const layersOf = 4

// build adds the graph to a net.
func (g randomGraph) build(graph *gorgonia.ExprGraph, dt tensor.Dtype) (*built, error) {
	b := &built{net: layers.New(graph)}
	b.net.Type = dt
	learned := g.learned()
	for i, s := range g {
		var in gorgonia.Nodes
		for _, k := range s.In {
			in = append(in, b.nodes[k])
		}
		if s.Op == leaf {
			p := b.net.Param(fmt.Sprintf("v%d", i), values(s.Floats), s.Ints...)
			if b.nodes = append(b.nodes, p); learned[i] {
				b.leaves, b.at = append(b.leaves, p), append(b.at, i)
			}
		} else {
			b.nodes = append(b.nodes, randomOps[s.Op].build(b.net, s, in))
		}
		if err := b.net.Err(); err != nil {
			return nil, fmt.Errorf("v%d: %w", i, err)
		}
		if s.Op != leaf {
			gorgonia.WithName(fmt.Sprintf("layer%d/v%d", i%layersOf, i))(b.nodes[i])
		}
	}
	for _, i := range g.roots() {
		x := b.net.Reshape(b.nodes[i], "", -1)
		w := make([]float64, x.Shape()[0])
		for k := range w {
			w[k] = weight(k)
		}
		term := b.net.Sum(b.net.Mul(x, b.net.Constant(w, ""), ""), "", layers.Reduce{})
		if b.loss != nil {
			term = b.net.Add(b.loss, term, "")
		}
		b.loss = term
	}
	return b, b.net.Err()
}

// String is the graph as Go text. The comments are what parseGraph reads.
func (g randomGraph) String() string {
	var b strings.Builder
	for i, s := range g {
		call := fmt.Sprintf("net.Param(%q, values%v, %s)", fmt.Sprintf("v%d", i), s.Floats, commas(s.Ints))
		if s.Op != leaf {
			var in []string
			for _, k := range s.In {
				in = append(in, fmt.Sprintf("v%d", k))
			}
			call = randomOps[s.Op].code(s, in)
		}
		args, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "v%d := %s // %s\n", i, call, args)
	}
	return b.String()
}

// parseGraph reads the text of a graph.
func parseGraph(text string) (g randomGraph, err error) {
	for line := range strings.Lines(text) {
		_, args, ok := strings.Cut(line, " // ")
		if !ok {
			continue
		}
		var s statement
		if err := json.Unmarshal([]byte(args), &s); err != nil {
			return nil, err
		}
		if s.Op != leaf && randomOps[s.Op].build == nil {
			return nil, fmt.Errorf("operation %q is not in the table", s.Op)
		}
		g = append(g, s)
	}
	return g, nil
}

func commas(x []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(x), " ", ", "), "[]")
}

// grower draws a random graph.
type grower struct {
	*rand.Rand
	graph randomGraph
	all   []array // values of the statements
}

// Limits of values: beyond, rounding of float32 would grow to more than the tolerance.
const (
	largestValue = 40
	mostElements = 200
)

// growGraph draws a graph of so many operations.
func growGraph(r *rand.Rand, operations int, names []string) randomGraph {
	g := &grower{Rand: r}
	for range 2 {
		g.param(g.shape())
	}
	for done := 0; done < operations; {
		name := names[g.IntN(len(names))]
		before := len(g.graph)
		s, ok := randomOps[name].draw(g)
		if s.Op = name; ok && g.add(s) {
			done++
		} else if g.IntN(3) > 0 { // drop parameters that were drawn for it
			g.graph, g.all = g.graph[:before], g.all[:before]
		}
	}
	return g.graph
}

// add adds a statement if its values are fit for a comparison.
func (g *grower) add(s statement) bool {
	op, in := randomOps[s.Op], []array{}
	for _, k := range s.In {
		in = append(in, g.all[k])
	}
	if op.smooth != nil && !op.smooth(s, in) {
		return false
	}
	y := op.value(s, in)
	if !(y.largest() <= largestValue) || len(y.x) > mostElements {
		return false
	}
	g.graph, g.all = append(g.graph, s), append(g.all, y)
	return true
}

// shape draws a shape of up to 4 dimensions, some of them 1, and a few longer than a vector register.
func (g *grower) shape() []int {
	s := make([]int, g.IntN(4)+1)
	for i := range s {
		s[i] = 1 + g.IntN(4)
		if g.IntN(12) == 0 {
			s[i] = 5 + g.IntN(30)
		}
	}
	return s
}

// param adds a parameter: half of them positive.
func (g *grower) param(shape []int) int {
	if len(shape) == 0 { // no parameter is a scalar
		shape = []int{1}
	}
	y := newArray(shape)
	positive := g.IntN(2) == 0
	for i := range y.x {
		v := g.NormFloat64()
		if positive {
			v = 0.3 + 2*g.Float64()
		}
		y.x[i] = float64(float32(v))
	}
	g.graph, g.all = append(g.graph, statement{Op: leaf, Ints: y.shape, Floats: y.x}), append(g.all, y)
	return len(g.graph) - 1
}

// pick returns a statement that fits, often a late one; sometimes, or if there is none, a new parameter
// of the shape that fresh returns.
func (g *grower) pick(fits func(a array) bool, fresh func() []int) int {
	var fit []int
	for i, a := range g.all {
		if fits(a) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 || g.IntN(8) == 0 {
		return g.param(fresh())
	}
	return fit[len(fit)-1-min(g.IntN(len(fit)), g.IntN(len(fit)))]
}

// any returns a statement of any shape.
func (g *grower) any() int { return g.pick(func(array) bool { return true }, g.shape) }

// rank returns a statement of a number of dimensions, at least least.
func (g *grower) rank(least int) int {
	return g.pick(func(a array) bool { return len(a.shape) >= least }, func() []int {
		s := g.shape()
		for len(s) < least {
			s = append(s, 2)
		}
		return s
	})
}

// shaped returns a statement of that shape.
func (g *grower) shaped(shape []int) int {
	if len(shape) == 0 {
		return g.pick(func(a array) bool { return len(a.shape) == 0 }, func() []int { return []int{1} })
	}
	return g.pick(func(a array) bool { return slices.Equal(a.shape, shape) }, func() []int { return shape })
}
