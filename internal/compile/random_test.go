package compile

import (
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"

	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// randomBatch is the batch size of random graphs.
const randomBatch = 4

// grower makes a random graph of a few operations over parameters and one input, a field of bytes.
type grower struct {
	*graphtest.Draft
	strict bool // only what Gorgonia computes and differentiates rightly
	nodes  []*gorgonia.Node
	bound  map[*gorgonia.Node]float64 // no element is larger
	read   map[*gorgonia.Node]bool    // another node reads it
	soft   map[*gorgonia.Node]bool    // it has a softmax: Gorgonia takes a second one for the first
	field  *gorgonia.Node
	grown  []string // names of the operations
}

// growth is an operation that a random graph can have.
type growth struct {
	name  string
	wrong bool // Gorgonia's own gradient or result is wrong
	grow  func(g *grower) *gorgonia.Node
}

// randomGraph grows a graph of 3 to 20 operations with a scalar loss.
func randomGraph(seed uint64, dt tensor.Dtype, strict bool) (g *grower, loss *gorgonia.Node) {
	g = &grower{Draft: graphtest.New(rand.New(rand.NewPCG(seed, 11)), dt), strict: strict, bound: map[*gorgonia.Node]float64{},
		read: map[*gorgonia.Node]bool{}, soft: map[*gorgonia.Node]bool{}}
	g.plant()
	all := growths()
	for want := 3 + g.Rand.IntN(18); len(g.grown) < want; {
		op := all[g.Rand.IntN(len(all))]
		if strict && op.wrong {
			continue
		}
		if n := g.try(op.grow); n != nil {
			g.grown = append(g.grown, op.name)
		}
	}
	return g, g.loss()
}

// plant adds the field, and its product with a parameter.
func (g *grower) plant() {
	bytes := make([]float64, randomBatch*3)
	for i := range bytes {
		bytes[i] = float64(g.Rand.IntN(256))/128 - 1 // exact in both float types
	}
	next := 0
	draw := func() float64 { next++; return bytes[next-1] }
	g.field = g.Of(draw, randomBatch, 3)
	g.add(g.field, 1)
	w := g.param(3, g.Wide())
	g.add(g.Must(gorgonia.Mul(g.field, w)), 12)
	g.read[g.field], g.read[w] = true, true
}

// try grows one operation. Where Gorgonia refuses it there is no node.
func (g *grower) try(grow func(*grower) *gorgonia.Node) (n *gorgonia.Node) {
	defer func() {
		if p := recover(); p != nil { // also Gorgonia's own panics about shapes
			g.Err, n = nil, nil
		}
	}()
	return grow(g)
}

// add adds a node without readers. Gorgonia may return an existing one, such as x for a double
// negation.
func (g *grower) add(n *gorgonia.Node, bound float64) *gorgonia.Node {
	if _, ok := g.bound[n]; !ok {
		g.nodes = append(g.nodes, n)
	}
	g.bound[n], g.read[n] = bound, false
	return n
}

func (g *grower) param(dims ...int) *gorgonia.Node {
	n := g.Of(func() float64 { return 2*g.Rand.Float64() - 1 }, dims...)
	return g.add(n, 1)
}

// pick returns a node for which ok is true, often a late one, else a new parameter of the shape
// that fresh returns.
func (g *grower) pick(ok func(s tensor.Shape) bool, fresh func() []int) *gorgonia.Node {
	var fit gorgonia.Nodes
	for _, n := range g.nodes {
		if ok(n.Shape()) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 || g.Rand.IntN(8) == 0 {
		return g.param(fresh()...)
	}
	return fit[len(fit)-1-min(g.Rand.IntN(len(fit)), g.Rand.IntN(len(fit)))]
}

// any returns a node of any shape, with elements no larger than limit.
func (g *grower) any(limit float64) *gorgonia.Node {
	return g.tame(g.pick(func(tensor.Shape) bool { return true }, g.fresh), limit)
}

// dims returns a node of that many dimensions.
func (g *grower) dims(rank int) *gorgonia.Node {
	return g.tame(g.pick(func(s tensor.Shape) bool { return len(s) == rank }, func() []int { return g.shape(rank) }), 30)
}

// shaped returns a node of that shape.
func (g *grower) shaped(dims ...int) *gorgonia.Node {
	return g.tame(g.pick(func(s tensor.Shape) bool { return slices.Equal(s, dims) }, func() []int { return dims }), 30)
}

func (g *grower) fresh() []int { return g.shape(g.Rand.IntN(4)) }

func (g *grower) shape(rank int) []int {
	s := make([]int, rank)
	for i := range s {
		if s[i] = g.Wide(); !g.strict && g.Rand.IntN(5) == 0 {
			s[i] = 1
		}
	}
	return s
}

// tame brings n between -1 and 1 where its elements may be larger than limit.
func (g *grower) tame(n *gorgonia.Node, limit float64) *gorgonia.Node {
	if g.bound[n] <= limit {
		return n
	}
	return g.use(1, n, g.Must(gorgonia.Tanh(n)))
}

// use adds y, which reads x and has elements within bound.
func (g *grower) use(bound float64, x, y *gorgonia.Node) *gorgonia.Node {
	g.read[x] = true
	return g.add(y, bound)
}

// join adds y, which reads a and b and has elements within bound.
func (g *grower) join(bound float64, a, b, y *gorgonia.Node) *gorgonia.Node {
	g.read[a], g.read[b] = true, true
	return g.add(y, bound)
}

// loss adds up all nodes without readers, so that it depends on every parameter.
func (g *grower) loss() (sum *gorgonia.Node) {
	for _, n := range slices.Clone(g.nodes) {
		if g.read[n] {
			continue
		}
		if g.bound[n] > 30 {
			n = g.Must(gorgonia.Tanh(n))
		}
		switch g.Rand.IntN(3) {
		case 0:
			n = g.Must(gorgonia.Square(n))
		case 1:
			n = g.Must(gorgonia.Tanh(n))
		}
		if len(n.Shape()) > 0 {
			n = g.Must(gorgonia.Mean(n))
		}
		if sum == nil {
			sum = n
		} else {
			sum = g.Must(gorgonia.Add(sum, n))
		}
	}
	return sum
}

// config compiles the graph with the field stored as bytes; all other inputs are parameters.
func (g *grower) config(dev kernels.Device, loss *gorgonia.Node) Config {
	return Config{Model: frontend.Model{Batch: randomBatch, Loss: loss, Inputs: map[*gorgonia.Node]frontend.Input{g.field: {Field: "x", Scale: 1. / 128, Shift: -1,
		Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{randomBatch, 3}}}}}, Mode: Train, Device: dev, Update: updateOf(optim.SGD{Rate: 0.5}, optim.Clip{})}
}

// feed writes the field's bytes to the slot.
func (g *grower) feed(m *machine) {
	x := m.field("x")
	for i, v := range graphtest.Numbers(g.field.Value()) {
		x[i] = byte((v + 1) * 128)
	}
}

// params returns the nodes that are trained.
func (g *grower) params() (ps gorgonia.Nodes) {
	for _, n := range g.Inputs {
		if n != g.field {
			ps = append(ps, n)
		}
	}
	return ps
}
