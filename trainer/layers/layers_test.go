package layers_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// reals returns n standard normal numbers.
func reals(r *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	for i := range d {
		d[i] = r.NormFloat64()
	}
	return d
}

// bind gives a float node values.
func bind(t *testing.T, x *gorgonia.Node, d []float64) {
	t.Helper()
	var backing any = d
	if x.Dtype() == tensor.Float32 {
		narrow := make([]float32, len(d))
		for i, v := range d {
			narrow[i] = float32(v)
		}
		backing = narrow
	}
	let(t, x, tensor.New(tensor.WithShape(x.Shape()...), tensor.WithBacking(backing)))
}

func let(t *testing.T, x *gorgonia.Node, v any) {
	t.Helper()
	if err := gorgonia.Let(x, v); err != nil {
		t.Fatal(err)
	}
}

// numbers returns a value's elements in float64.
func numbers(t *testing.T, v gorgonia.Value) []float64 {
	t.Helper()
	switch d := v.Data().(type) {
	case float32:
		return []float64{float64(d)}
	case float64:
		return []float64{d}
	case []float32:
		out := make([]float64, len(d))
		for i, x := range d {
			out[i] = float64(x)
		}
		return out
	case []float64:
		return slices.Clone(d)
	}
	t.Fatalf("value of type %T", v.Data())
	return nil
}

// near compares with a tolerance of the type: rounding of a few dozen operations.
func near(t *testing.T, what string, dt tensor.Dtype, got, want []float64) {
	t.Helper()
	tolerance := 1e-12
	if dt == tensor.Float32 {
		tolerance = 2e-5
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d (EVENKEEL_SEED=%d)", what, len(got), len(want), seed.Value())
	}
	for i := range got {
		if math.IsNaN(got[i]) != math.IsNaN(want[i]) || math.Abs(got[i]-want[i]) > tolerance*(1+math.Abs(want[i])) {
			t.Fatalf("%s: element %d is %v, want %v (EVENKEEL_SEED=%d)", what, i, got[i], want[i], seed.Value())
		}
	}
}

// run executes the graph on Gorgonia's tape machine.
func run(t *testing.T, g *gorgonia.ExprGraph) {
	t.Helper()
	m := gorgonia.NewTapeMachine(g)
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
}

var types = []tensor.Dtype{tensor.Float32, tensor.Float64}

// TestDenseTrainsOnATapeMachine compares value and gradients of one layer and a squared error with the
// formulas, for batches and outputs of 1 too: there Gorgonia's broadcasting has most special cases.
func TestDenseTrainsOnATapeMachine(t *testing.T) {
	for _, dt := range types {
		for _, size := range [][3]int{{1, 1, 1}, {1, 3, 1}, {1, 3, 4}, {4, 3, 1}, {4, 1, 1}, {1, 1, 4}, {4, 1, 3}, {5, 6, 7}} {
			t.Run(fmt.Sprintf("%v %v", dt, size), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed.Value(), 4))
				b, in, out := size[0], size[1], size[2]
				g := gorgonia.NewGraph()
				net := layers.New(g)
				net.Type = dt
				x := net.Input("x", b, in)
				y := net.Dense(x, "layer", out, nil)
				m, err := net.Regressor(x, y)
				if err != nil {
					t.Fatal(err)
				}
				grads, err := gorgonia.Grad(m.Loss, m.Params[0].Node, m.Params[1].Node)
				if err != nil {
					t.Fatal(err)
				}
				xs, ws, bs, ts := reals(r, b*in), reals(r, in*out), reals(r, out), reals(r, b*out)
				bind(t, x, xs)
				bind(t, m.Params[0].Node, ws)
				bind(t, m.Params[1].Node, bs)
				bind(t, m.Inputs[1], ts)
				var read gorgonia.Value
				gorgonia.Read(y, &read)
				run(t, g)
				ys, dw, db, loss := make([]float64, b*out), make([]float64, in*out), make([]float64, out), 0.0
				for i := range b {
					for j := range out {
						v := bs[j]
						for k := range in {
							v += xs[i*in+k] * ws[k*out+j]
						}
						ys[i*out+j] = v
						d := v - ts[i*out+j]
						loss += d * d / float64(b*out)
						db[j] += 2 * d / float64(b*out)
						for k := range in {
							dw[k*out+j] += 2 * d / float64(b*out) * xs[i*in+k]
						}
					}
				}
				near(t, "y", dt, numbers(t, read), ys)
				near(t, "loss", dt, numbers(t, m.Loss.Value()), []float64{loss})
				near(t, "dw", dt, numbers(t, grads[0].Value()), dw)
				near(t, "db", dt, numbers(t, grads[1].Value()), db)
			})
		}
	}
}

func TestEveryActivationIsItsFormula(t *testing.T) {
	for _, c := range []struct {
		name string
		act  layers.Activation
		want func(float64) float64
	}{
		{"relu", layers.ReLU, func(x float64) float64 { return max(x, 0) }},
		{"sigmoid", layers.Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
		{"tanh", layers.Tanh, math.Tanh},
		{"erf", layers.Erf, math.Erf},
		{"leaky", layers.LeakyReLU(0.1), func(x float64) float64 { return max(x, 0.1*x) }},
	} {
		for _, dt := range types {
			g := gorgonia.NewGraph()
			net := layers.New(g)
			net.Type = dt
			x := net.Input("x", 3, 5)
			y := c.act(net, x, "y")
			if net.Err() != nil {
				t.Fatal(net.Err())
			}
			in := reals(rand.New(rand.NewPCG(seed.Value(), 5)), 15)
			want := make([]float64, len(in))
			for i, v := range in {
				want[i] = c.want(v)
			}
			bind(t, x, in)
			run(t, g)
			near(t, c.name, dt, numbers(t, y.Value()), want)
		}
	}
}

// mlp is the classifier that most tests use.
func mlp(g *gorgonia.ExprGraph, batch int) (*layers.Net, layers.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 8)
	h := net.Dense(x, "hidden", 16, layers.ReLU)
	h = net.Dense(h, "second", 16, layers.LeakyReLU(0.1))
	out := net.Dense(h, "out", 3, nil)
	m, err := net.Classifier(x, out)
	return net, m, err
}

func TestAClassifierLearnsWithGorgoniasOwnMachineAndSolver(t *testing.T) {
	for _, batch := range []int{1, 6} {
		g := gorgonia.NewGraph()
		net, m, err := mlp(g, batch)
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Values(3); err != nil {
			t.Fatal(err)
		}
		var params gorgonia.Nodes
		for _, p := range m.Params {
			params = append(params, p.Node)
		}
		if _, err := gorgonia.Grad(m.Loss, params...); err != nil {
			t.Fatal(err)
		}
		vm := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(params...))
		defer vm.Close()
		solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.2))
		r := rand.New(rand.NewPCG(seed.Value(), 6))
		label := make([]int, batch)
		for i := range label {
			label[i] = i % 3
		}
		bind(t, m.Inputs[0], reals(r, batch*8))
		let(t, m.Inputs[1], tensor.New(tensor.WithShape(batch), tensor.WithBacking(label)))
		var first, last float64
		for step := range 60 {
			if err := vm.RunAll(); err != nil {
				t.Fatal(err)
			}
			last = numbers(t, m.Loss.Value())[0]
			if step == 0 {
				first = last
			}
			if err := solver.Step(gorgonia.NodesToValueGrads(params)); err != nil {
				t.Fatal(err)
			}
			vm.Reset()
		}
		if !(last < first/4) {
			t.Errorf("batch %d: loss went from %v to %v, want less than a quarter", batch, first, last)
		}
	}
}

func TestTheGraphHasNoValuesAndTheSameNamesForEveryBatchSize(t *testing.T) {
	var names [2][]string
	for i, batch := range []int{1, 64} {
		_, m, err := mlp(gorgonia.NewGraph(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Params {
			if p.Node.Value() != nil {
				t.Errorf("%s has a value before anybody asked", p.Node.Name())
			}
			names[i] = append(names[i], fmt.Sprint(p.Node.Name(), p.Node.Shape()))
		}
		for _, x := range m.Inputs {
			if x.Shape()[0] != batch {
				t.Errorf("input %s has %d rows, want %d", x.Name(), x.Shape()[0], batch)
			}
		}
	}
	want := []string{"hidden/w(8, 16)", "hidden/b(16)", "second/w(16, 16)", "second/b(16)", "out/w(16, 3)", "out/b(3)"}
	for i, got := range names {
		if !slices.Equal(got, want) {
			t.Errorf("batch %d of 2: parameters %v, want %v", i, got, want)
		}
	}
}

func TestFlattenKeepsTheBatch(t *testing.T) {
	net := layers.New(gorgonia.NewGraph())
	x := net.Flatten(net.Input("x", 5, 2, 3, 4), "flat")
	if net.Err() != nil || !slices.Equal(x.Shape(), []int{5, 24}) {
		t.Errorf("got %v, %v, want (5, 24)", x, net.Err())
	}
}

func TestBadLayersAreErrorsThatNameTheCulprit(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  string
	}{
		{"vector input", func(n *layers.Net) { n.Dense(n.Input("x", 32), "hidden", 4, nil) }, layers.ErrShape, `dense "hidden": input (32) needs 2 dimensions`},
		{"image input", func(n *layers.Net) { n.Dense(n.Input("x", 32, 28, 28), "hidden", 4, nil) }, layers.ErrShape, `use Flatten`},
		{"no outputs", func(n *layers.Net) { n.Dense(n.Input("x", 2, 3), "hidden", 0, nil) }, layers.ErrShape, `dense "hidden": 0 outputs`},
		{"same layer twice", func(n *layers.Net) {
			x := n.Input("x", 2, 3)
			n.Dense(n.Dense(x, "hidden", 3, nil), "hidden", 3, nil)
		}, layers.ErrName, `parameter "hidden/w"`},
		{"same input twice", func(n *layers.Net) { n.Input("x", 2, 3); n.Input("x", 2, 3) }, layers.ErrName, `input "x"`},
		{"no name", func(n *layers.Net) { n.Input("", 2, 3) }, layers.ErrName, "has no name"},
		{"layer without a name", func(n *layers.Net) { n.Dense(n.Input("x", 2, 3), "", 3, nil) }, layers.ErrName, `over "x" has no name`},
		{"batch of 0", func(n *layers.Net) { n.Input("x", 0, 3) }, layers.ErrShape, `input "x": dimensions (0, 3)`},
		{"no dimensions", func(n *layers.Net) { n.Input("x") }, layers.ErrShape, `input "x" needs at least 1 dimension`},
		{"negative labels", func(n *layers.Net) { n.Labels("y", -1) }, layers.ErrShape, `labels "y"`},
		{"bad type", func(n *layers.Net) { n.Type = tensor.Bool; n.Input("x", 2) }, layers.ErrShape, "use tensor.Float32"},
		{"types mixed", func(n *layers.Net) {
			x := n.Input("x", 2, 3)
			n.Type = tensor.Float64
			n.Dense(x, "hidden", 3, nil)
		}, layers.ErrShape, `dense "hidden": input is float32 but Net.Type is float64`},
		{"integer input", func(n *layers.Net) { n.Dense(n.Labels("y", 3), "hidden", 3, nil) }, layers.ErrShape, `"y" is of type int`},
		{"labels of another batch", func(n *layers.Net) {
			n.CrossEntropy(n.Input("x", 4, 3), n.Labels("y", 5), "loss")
		}, layers.ErrShape, `cross entropy "loss": target "y" is (5), must be (4)`},
		{"float labels", func(n *layers.Net) {
			n.CrossEntropy(n.Input("x", 4, 3), n.Input("y", 4), "loss")
		}, layers.ErrShape, "must be an integer type"},
		{"logits of rank 3", func(n *layers.Net) { x := n.Input("x", 4, 3, 2); n.Classifier(x, x) }, layers.ErrShape, "need 2 dimensions"},
		{"target name taken", func(n *layers.Net) { y := n.Input("y", 4, 3); n.Classifier(y, y) }, layers.ErrName, `labels "y"`},
		{"nil input", func(n *layers.Net) { n.Dense(nil, "hidden", 3, nil) }, layers.ErrNode, `dense "hidden": the input is nil`},
		{"another graph", func(n *layers.Net) {
			n.Dense(layers.New(gorgonia.NewGraph()).Input("x", 2, 3), "hidden", 3, nil)
		}, layers.ErrNode, `"x" belongs to another graph`},
		{"no init", func(n *layers.Net) { n.Param("w", nil, 3) }, layers.ErrInit, `parameter "w": no init: use layers.Zeros{}`},
		{"nil weights", func(n *layers.Net) {
			var p *layers.Normal
			n.Weights = p
			n.Dense(n.Input("x", 2, 3), "hidden", 3, nil)
		}, layers.ErrInit, `parameter "hidden/w": init is a nil *layers.Normal`},
		{"no type", func(n *layers.Net) { n.Type = tensor.Dtype{}; n.Input("x", 2, 3) }, layers.ErrShape, `input "x": Net.Type is no type: use`},
		{"no type for a layer", func(n *layers.Net) {
			x := n.Input("x", 2, 3)
			n.Type = tensor.Dtype{}
			n.Dense(x, "hidden", 3, nil)
		}, layers.ErrShape, `input is float32 but Net.Type is no type`},
		{"nil target", func(n *layers.Net) { n.CrossEntropy(n.Input("x", 4, 3), nil, "loss") }, layers.ErrNode, `"loss": the target is nil`},
		{"target of another graph", func(n *layers.Net) {
			n.CrossEntropy(n.Input("x", 4, 3), layers.New(gorgonia.NewGraph()).Labels("y", 4), "loss")
		}, layers.ErrNode, `"y" belongs to another graph`},
		{"nil output", func(n *layers.Net) { n.Regressor(n.Input("x", 4, 3), nil) }, layers.ErrNode, `regressor: the input is nil`},
		{"nil model input", func(n *layers.Net) { n.Regressor(nil, n.Input("x", 4, 3)) }, layers.ErrNode, `model: the input is nil`},
		{"statement", func(n *layers.Net) {
			var v gorgonia.Value
			layers.Tanh(n, gorgonia.Read(n.Input("x", 4, 3), &v), "act")
		}, layers.ErrNode, `is a statement`},
	} {
		t.Run(c.name, func(t *testing.T) {
			net := layers.New(gorgonia.NewGraph())
			c.build(net)
			err := net.Err()
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.is) {
				t.Fatalf("got %v, want %q that is %v", err, c.want, c.is)
			}
			if net.Input("later", 2, 3) != nil || !errors.Is(net.Err(), err) {
				t.Error("the net went on after its first error")
			}
			if _, got := net.Classifier(nil, nil); got != err {
				t.Errorf("Classifier returned %v, want the first error", got)
			}
		})
	}
	for name, net := range map[string]*layers.Net{"nil graph": layers.New(nil), "zero net": {Type: tensor.Float32}} {
		x := net.Input("x", 2, 3)
		_, err := net.Classifier(x, net.Dense(x, "hidden", 3, layers.ReLU))
		if !errors.Is(err, layers.ErrNode) || err != net.Err() {
			t.Errorf("%s: got %v, want ErrNode", name, err)
		}
	}
	if !errors.Is(layers.ErrShape, kernels.ErrShape) {
		t.Error("shapes that do not fit are of two classes")
	}
}
