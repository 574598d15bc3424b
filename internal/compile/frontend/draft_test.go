package frontend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// draft builds a small Gorgonia graph with inputs of random values.
type draft struct {
	g      *gorgonia.ExprGraph
	r      *rand.Rand
	dt     tensor.Dtype
	err    error
	inputs gorgonia.Nodes
}

func newDraft(r *rand.Rand, dt tensor.Dtype) *draft {
	return &draft{g: gorgonia.NewGraph(), r: r, dt: dt}
}

// must keeps the first error.
func (d *draft) must(n *gorgonia.Node, err error) *gorgonia.Node {
	if d.err == nil {
		d.err = err
	}
	if n == nil && d.err == nil {
		d.err = fmt.Errorf("no node")
	}
	if d.err != nil {
		panic(d)
	}
	return n
}

// dim returns a random size, often 1.
func (d *draft) dim() int { return 1 + d.r.IntN(5) }

// wide returns a random size that is not 1.
func (d *draft) wide() int { return 2 + d.r.IntN(4) }

func (d *draft) normal() float64   { return d.r.NormFloat64() }
func (d *draft) positive() float64 { return 0.3 + 2*d.r.Float64() }

// of returns an input with elements drawn from draw; a scalar without dims.
func (d *draft) of(draw func() float64, dims ...int) *gorgonia.Node {
	name := fmt.Sprintf("in%d", len(d.inputs))
	var n *gorgonia.Node
	if len(dims) == 0 {
		n = gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName(name), gorgonia.WithValue(d.scalar(draw())))
	} else {
		n = gorgonia.NewTensor(d.g, d.dt, len(dims), gorgonia.WithShape(dims...), gorgonia.WithName(name), gorgonia.WithValue(d.tensor(draw, dims...)))
	}
	d.inputs = append(d.inputs, n)
	return n
}

func (d *draft) in(dims ...int) *gorgonia.Node { return d.of(d.normal, dims...) }

func (d *draft) scalar(x float64) any {
	if d.dt == tensor.Float32 {
		return float32(x)
	}
	return x
}

func (d *draft) tensor(draw func() float64, dims ...int) *tensor.Dense {
	n := tensor.Shape(dims).TotalSize()
	f32, f64 := make([]float32, n), make([]float64, n)
	for i := range n {
		f64[i] = draw()
		f32[i] = float32(f64[i])
	}
	if d.dt == tensor.Float32 {
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(f32))
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(f64))
}

// Programs that train, and others.
var training, inference = Options{Training: true}, Options{}

// reading is a lowered graph, run by the reference code of its operations.
type reading struct {
	*Graph
	bytes map[kernels.Value][]byte
}

// readGraph lowers the graph of roots; every node without an op is a parameter.
func readGraph(o Options, roots ...*gorgonia.Node) (*reading, error) {
	m := Model{Graph: roots[0].Graph(), Params: make(map[*gorgonia.Node]bool)}
	for _, n := range m.Graph.AllNodes() {
		if n.Op() == nil {
			m.Params[n] = true
		}
	}
	g := New(ir.NewBuilder(&ir.Program{}, &ir.Homes{}), m, o)
	if err := g.lower(roots); err != nil {
		return nil, err
	}
	return &reading{Graph: g}, nil
}

// run executes all instructions, on memory that is not zero before.
func (c *reading) run() error {
	c.bytes = make(map[kernels.Value][]byte)
	for _, p := range c.params {
		b := make([]byte, c.Spec(p.Value).Bytes())
		if err := store(b, c.Spec(p.Value).Type, p.node.Value()); err != nil {
			return err
		}
		c.bytes[p.Value] = b
	}
	for _, k := range c.Constants {
		c.bytes[k.Value] = k.Data
	}
	operands := func(vs []kernels.Value) (ops []kernels.Operand) {
		for _, v := range vs {
			if c.bytes[v] == nil {
				c.bytes[v] = make([]byte, c.Spec(v).Bytes())
				for i := range c.bytes[v] {
					if c.Values[v].Home {
						break // the status word, which is clear before the first step
					}
					c.bytes[v][i] = 0x7f // huge as a float of either type
				}
			}
			ops = append(ops, kernels.Operand{Spec: c.Spec(v), Ref: arena.Ref{Offset: int64(v), Size: c.Spec(v).Bytes()}})
		}
		return ops
	}
	for _, in := range c.Instrs {
		call := kernels.Call{Op: in.Op, Attrs: in.Attrs, In: operands(in.In), Out: operands(in.Out), Label: in.Label}
		before := make([]string, len(in.In))
		for i, v := range in.In {
			before[i] = string(c.bytes[v])
		}
		if err := kernels.Run(call, func(o kernels.Operand) []byte { return c.bytes[kernels.Value(o.Ref.Offset)] }); err != nil {
			return err
		}
		for i, v := range in.In {
			if before[i] != string(c.bytes[v]) {
				return fmt.Errorf("%s %s changed its operand %d", in.Op.Name, in.Label, i)
			}
		}
	}
	return nil
}

// floats returns the elements of a value.
func (c *reading) floats(v kernels.Value) []float64 {
	xs := make([]float64, c.Spec(v).Shape.Elems())
	kernels.Load(xs, c.Spec(v).Type, c.bytes[v])
	return xs
}

// count returns how many instructions are of op.
func (c *reading) count(op *kernels.Op) (n int) {
	for _, in := range c.Instrs {
		if in.Op == op {
			n++
		}
	}
	return n
}

// tape runs the graph of roots on Gorgonia's tape machine.
func tape(roots ...*gorgonia.Node) (out [][]float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	into := make([]gorgonia.Value, len(roots))
	for i, n := range roots {
		gorgonia.Read(n, &into[i])
	}
	m := gorgonia.NewTapeMachine(roots[0].Graph())
	defer m.Close()
	if err := m.RunAll(); err != nil {
		return nil, err
	}
	for i, v := range into {
		if v == nil {
			return nil, fmt.Errorf("root %d has no value", i)
		}
		out = append(out, numbers(v))
	}
	return out, nil
}

// numbers returns the elements of a Gorgonia value, bools as 1 and 0.
func numbers(v gorgonia.Value) []float64 {
	t, err := dtypeOf(v.Dtype())
	if err != nil {
		t = arena.Uint8
	}
	xs := make([]float64, max(v.Shape().TotalSize(), 1))
	b := make([]byte, int64(len(xs))*t.Size())
	if err := store(b, t, v); err != nil {
		panic(err)
	}
	kernels.Load(xs, t, b)
	return xs
}

// tolerance is the relative error allowed against Gorgonia, which sums in another order, and in
// float32 rounds between steps that are one operation here.
func tolerance(dt tensor.Dtype) float64 {
	if dt == tensor.Float32 {
		return 2e-4
	}
	return 1e-9
}

// near reports whether two results agree to a tolerance relative to their size, but at least 1.
func near(got, want []float64, tol float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if got[i] == w || math.IsNaN(got[i]) && math.IsNaN(w) {
			continue
		}
		if !(math.Abs(got[i]-w) <= tol*max(1, math.Abs(w))) {
			return false
		}
	}
	return true
}

// recipe is a graph to be lowered.
type recipe struct {
	name  string
	build func(d *draft) *gorgonia.Node
	op    *kernels.Op // must be in the program
}

// compare lowers a recipe's graph and compares the result with the tape machine's. It reports
// whether Gorgonia could run it.
func compare(t *testing.T, c recipe, dt tensor.Dtype, s uint64) bool {
	t.Helper()
	d := newDraft(rand.New(rand.NewPCG(s, 7)), dt)
	root := func() (n *gorgonia.Node) {
		defer func() {
			if p := recover(); p != nil && p != any(d) {
				panic(p)
			}
		}()
		return c.build(d)
	}()
	if d.err != nil { // Gorgonia refuses these shapes
		return false
	}
	got, err := readGraph(training, root)
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	if err := got.run(); err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	want, err := tape(root)
	if err != nil {
		return false
	}
	v := got.values[root]
	if ys := got.floats(v); !near(ys, want[0], tolerance(dt)) {
		t.Fatalf("seed %d: got %v %v, Gorgonia computes %v\n%v", s, got.Spec(v), ys, want[0], got.Program)
	}
	if shape := got.Spec(v).Shape; !shape.Equal(shapeOf(root)) {
		t.Fatalf("seed %d: got shape %v, want %v", s, shape, root.Shape())
	}
	if c.op != nil && got.count(c.op) == 0 {
		t.Fatalf("seed %d: no %s among\n%v", s, c.op.Name, got.Program)
	}
	return true
}

// runRecipes compares each recipe on random shapes, in both float types. In at least a third of
// them Gorgonia must have a result.
func runRecipes(t *testing.T, recipes []recipe) {
	const draws = 12
	for _, c := range recipes {
		t.Run(c.name, func(t *testing.T) {
			compared := 0
			for _, dt := range []tensor.Dtype{tensor.Float64, tensor.Float32} {
				for s := range uint64(draws) {
					if compare(t, c, dt, seed.Value()*1000+s) {
						compared++
					}
				}
			}
			if compared < 2*draws/3 {
				t.Fatalf("seed %d: Gorgonia ran only %d of %d", seed.Value(), compared, 2*draws)
			}
		})
	}
}
