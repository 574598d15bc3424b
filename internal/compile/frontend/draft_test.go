package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

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

// tolerance is the relative error allowed against Gorgonia, which sums in another order, and in
// float32 rounds between steps that are one operation here.
func tolerance(dt tensor.Dtype) float64 {
	if dt == tensor.Float32 {
		return 2e-4
	}
	return 1e-9
}

// recipe is a graph to be lowered.
type recipe struct {
	name  string
	build func(d *graphtest.Draft) *gorgonia.Node
	op    *kernels.Op // must be in the program
}

// compare lowers a recipe's graph and compares the result with the tape machine's. It reports
// whether Gorgonia could run it.
func compare(t *testing.T, c recipe, dt tensor.Dtype, s uint64) bool {
	t.Helper()
	d := graphtest.New(rand.New(rand.NewPCG(s, 7)), dt)
	root := func() (n *gorgonia.Node) {
		defer func() {
			if p := recover(); p != nil && p != any(d) {
				panic(p)
			}
		}()
		return c.build(d)
	}()
	if d.Err != nil { // Gorgonia refuses these shapes
		return false
	}
	got, err := readGraph(training, root)
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	if err := got.run(); err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	want, err := graphtest.Tape(root)
	if err != nil {
		return false
	}
	v := got.values[root]
	if ys := got.floats(v); !graphtest.Near(ys, want[0], tolerance(dt)) {
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
