package vm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// sketch builds a graph; what goes wrong ends the test.
type sketch struct {
	t    testing.TB
	g    *gorgonia.ExprGraph
	dt   tensor.Dtype
	r    *rand.Rand // of values
	seed uint64
}

func newSketch(t testing.TB, dt tensor.Dtype, seed uint64) *sketch {
	return &sketch{t: t, g: gorgonia.NewGraph(), dt: dt, r: rand.New(rand.NewPCG(seed, 1)), seed: seed}
}

func (d *sketch) must(n *gorgonia.Node, err error) *gorgonia.Node {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// randomTensor returns a random tensor.
func randomTensor(r *rand.Rand, dt tensor.Dtype, shape ...int) *tensor.Dense {
	n := tensor.Shape(shape).TotalSize()
	if dt == tensor.Float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(s))
	}
	s := make([]float64, n)
	for i := range s {
		s[i] = r.NormFloat64()
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(s))
}

// in adds an input without a value, param one with.
func (d *sketch) in(name string, shape ...int) *gorgonia.Node {
	return gorgonia.NewTensor(d.g, d.dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
}

func (d *sketch) param(name string, shape ...int) *gorgonia.Node {
	n := d.in(name, shape...)
	letBe(d.t, n, randomTensor(d.r, d.dt, shape...))
	return n
}

func letBe(t testing.TB, n *gorgonia.Node, v any) {
	t.Helper()
	if err := gorgonia.Let(n, v); err != nil {
		t.Fatal(err)
	}
}

// netGraph is a graph that was differentiated.
type netGraph struct {
	*sketch
	data    gorgonia.Nodes
	weights gorgonia.Nodes
	loss    *gorgonia.Node
	read    gorgonia.Value // of the prediction
}

func (m *netGraph) grad() *netGraph {
	m.t.Helper()
	if _, err := gorgonia.Grad(m.loss, m.weights...); err != nil {
		m.t.Fatal(err)
	}
	return m
}

func perceptron(d *sketch) *netGraph {
	m := &netGraph{sketch: d, data: gorgonia.Nodes{d.in("x", 8, 5), d.in("y", 8, 3)}}
	m.weights = gorgonia.Nodes{d.param("w0", 5, 7), d.param("b0", 1, 7), d.param("w1", 7, 3)}
	h := d.must(gorgonia.Rectify(d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(m.data[0], m.weights[0])), m.weights[1], nil, []byte{0}))))
	out := d.must(gorgonia.Mul(h, m.weights[2]))
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(out, m.data[1]))))))
	return m.grad()
}

func recurrent(d *sketch) *netGraph {
	m := &netGraph{sketch: d, data: gorgonia.Nodes{d.in("x0", 4, 3), d.in("x1", 4, 3)}, weights: gorgonia.Nodes{d.param("w", 8, 10), d.param("s", 4, 5)}}
	s := m.weights[1]
	for _, x := range m.data {
		z := d.must(gorgonia.Mul(d.must(gorgonia.Concat(1, x, s)), m.weights[0]))
		gate := d.must(gorgonia.Sigmoid(d.must(gorgonia.Slice(z, nil, gorgonia.S(0, 5)))))
		s = d.must(gorgonia.HadamardProd(gate, d.must(gorgonia.Tanh(d.must(gorgonia.Slice(z, nil, gorgonia.S(5, 10)))))))
	}
	gorgonia.Read(s, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(s))))
	return m.grad()
}

func convolution(d *sketch) *netGraph {
	m := &netGraph{sketch: d, data: gorgonia.Nodes{d.in("x", 2, 1, 6, 6)}, weights: gorgonia.Nodes{d.param("k", 3, 1, 3, 3), d.param("w", 27, 2)}}
	y := d.must(gorgonia.Conv2d(m.data[0], m.weights[0], tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	y = d.must(gorgonia.MaxPool2D(d.must(gorgonia.Rectify(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	out := d.must(gorgonia.Mul(d.must(gorgonia.Reshape(y, tensor.Shape{2, 27})), m.weights[1]))
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(out))))
	return m.grad()
}

// ofLayers is a network of package layers, whose operations run on a tape machine by their meaning in float64.
func ofLayers(d *sketch) *netGraph {
	net := layers.On(d.g)
	net.Type = d.dt
	x := net.Input("x", 3, 2, 6, 6)
	c := layers.Conv2D{Out: 4, Kernel: layers.Square(3), Pad: layers.Square(1)}
	h := net.MaxPool(net.Conv(x, "conv", c, layers.Tanh), "max", layers.Pool{Kernel: layers.Square(2), Stride: layers.Square(2)})
	c.NoBias = true
	h = net.Residual(h, "block", func(x *gorgonia.Node) *gorgonia.Node {
		return net.BatchNorm(net.Conv(x, "block/conv", c, nil), "block/bn", layers.Sigmoid)
	}, layers.Tanh)
	h = net.GroupNorm(h, "groups", 2)
	h = net.AvgPool(h, "average", layers.Pool{Kernel: layers.Square(2), Stride: layers.Square(1)})
	h = net.LayerNorm(net.Flatten(h, "flat"), "rows")
	out := net.Dense(h, "out", 3, nil)
	if err := net.Values(d.seed); err != nil {
		d.t.Fatal(err)
	}
	m := &netGraph{sketch: d, data: gorgonia.Nodes{x}}
	for _, p := range net.Params() {
		m.weights = append(m.weights, p.Node)
	}
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(out))))
	return m.grad()
}

func elements(v gorgonia.Value) []float64 {
	switch x := v.Data().(type) {
	case []float64:
		return append([]float64(nil), x...)
	case float64:
		return []float64{x}
	case float32:
		return []float64{float64(x)}
	case []float32:
		var s []float64
		for _, f := range x {
			s = append(s, float64(f))
		}
		return s
	}
	panic(fmt.Sprintf("%T", v))
}

// allNear reports whether a and b differ by no more than a part tol of the largest of them.
func allNear(a, b []float64, tol float64) bool {
	scale := 0.0
	for _, x := range b {
		scale = max(scale, math.Abs(x))
	}
	for i := range b {
		if len(a) != len(b) || !(math.Abs(a[i]-b[i]) <= tol*scale) {
			return false
		}
	}
	return true
}

// sight is what a program sees of one step.
type sight struct {
	what   string
	values []float64
}

// watch runs a model on a machine for some steps, with new batches, and returns all that a program can look at.
func watch(m *netGraph, machine gorgonia.VM, solver gorgonia.Solver, steps, every int) (seen []sight) {
	m.t.Helper()
	note := func(i int, what string, v gorgonia.Value) {
		seen = append(seen, sight{fmt.Sprintf("%s of step %d", what, i), elements(v)})
	}
	data := rand.New(rand.NewPCG(m.seed, 2))
	for i := range steps {
		for _, n := range m.data {
			letBe(m.t, n, randomTensor(data, m.dt, n.Shape()...))
		}
		if err := machine.RunAll(); err != nil {
			m.t.Fatalf("step %d: %v", i, err)
		}
		note(i, "loss", m.loss.Value())
		note(i, "prediction", m.read)
		for _, w := range m.weights {
			g, err := w.Grad()
			if err != nil {
				m.t.Fatal(err)
			}
			note(i, "gradient of "+w.Name(), g)
		}
		if (i+1)%every == 0 {
			if err := solver.Step(gorgonia.NodesToValueGrads(m.weights)); err != nil {
				m.t.Fatal(err)
			}
		}
		for _, w := range m.weights {
			note(i, w.Name(), w.Value())
		}
		machine.Reset()
	}
	return seen
}

func compareSights(t *testing.T, got, want []sight, tol float64) {
	t.Helper()
	for i, w := range want {
		if !allNear(got[i].values, w.values, tol) {
			t.Fatalf("%s: got %v, the tape machine has %v", w.what, got[i].values, w.values)
		}
	}
}

func newMachine(t testing.TB, dev kernels.Device, g *gorgonia.ExprGraph, opt vm.Options) *vm.Machine {
	t.Helper()
	opt.Device = dev
	m, err := vm.New(g, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// Losses, predictions, gradients and weights of every step are those of the tape machine. Tolerances are what rounding grows to in so
// many steps.
func TestAMachineTrainsLikeATapeMachine(t *testing.T) {
	solvers := []struct {
		name string
		make func() gorgonia.Solver
	}{
		{"vanilla", func() gorgonia.Solver { return gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.05)) }},
		{"adam", func() gorgonia.Solver { return gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.01)) }},
		{"rmsprop", func() gorgonia.Solver { return gorgonia.NewRMSPropSolver(gorgonia.WithLearnRate(0.01)) }},
	}
	for _, c := range []struct {
		name   string
		model  func(*sketch) *netGraph
		dt     tensor.Dtype
		solver int
		bind   bool
		steps  int
		every  int // steps between those of the solver
		tol    float64
	}{
		{"perceptron, float64", perceptron, tensor.Float64, 1, false, 20, 1, 1e-10},
		{"perceptron, float64, bound", perceptron, tensor.Float64, 1, true, 20, 1, 1e-10},
		{"perceptron, float64, gradients of three runs", perceptron, tensor.Float64, 0, true, 20, 3, 1e-10},
		{"perceptron, float32", perceptron, tensor.Float32, 0, false, 20, 1, 1e-4},
		{"perceptron, float32, bound", perceptron, tensor.Float32, 0, true, 20, 1, 1e-4},
		{"recurrent", recurrent, tensor.Float64, 2, false, 20, 1, 1e-10},
		{"recurrent, bound", recurrent, tensor.Float64, 1, true, 20, 2, 1e-10},
		{"convolution", convolution, tensor.Float64, 0, false, 4, 1, 1e-10},
		{"layers", ofLayers, tensor.Float64, 0, false, 4, 1, 1e-10},
		{"layers, float32, bound", ofLayers, tensor.Float32, 0, true, 4, 1, 1e-3},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := random(t).Uint64()
			ref := c.model(newSketch(t, c.dt, seed))
			var opts []gorgonia.VMOpt
			if c.bind {
				opts = append(opts, gorgonia.BindDualValues(ref.weights...))
			}
			tape := gorgonia.NewTapeMachine(ref.g, opts...)
			defer tape.Close()
			want := watch(ref, tape, solvers[c.solver].make(), c.steps, c.every)
			for _, d := range targets {
				t.Run(d.name, func(t *testing.T) {
					m := c.model(newSketch(t, c.dt, seed))
					opt := vm.Options{}
					if c.bind {
						opt.Bind = m.weights
					}
					machine := newMachine(t, d.open(t), m.g, opt)
					compareSights(t, watch(m, machine, solvers[c.solver].make(), c.steps, c.every), want, c.tol)
				})
			}
		})
	}
}
