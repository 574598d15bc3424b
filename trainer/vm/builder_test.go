package vm_test

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// builder builds a graph. An error ends the test.
type builder struct {
	t    testing.TB
	g    *gorgonia.ExprGraph
	dt   tensor.Dtype
	r    *rand.Rand // of values
	seed uint64
}

func newBuilder(t testing.TB, dt tensor.Dtype, seed uint64) *builder {
	return &builder{t: t, g: gorgonia.NewGraph(), dt: dt, r: rand.New(rand.NewPCG(seed, 1)), seed: seed}
}

func (d *builder) must(n *gorgonia.Node, err error) *gorgonia.Node {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// in adds an input without a value. param adds one with a random value.
func (d *builder) in(name string, shape ...int) *gorgonia.Node {
	return gorgonia.NewTensor(d.g, d.dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
}

func (d *builder) param(name string, shape ...int) *gorgonia.Node {
	n := d.in(name, shape...)
	let(d.t, n, randomTensor(d.r, d.dt, shape...))
	return n
}

// testModel is a differentiated graph.
type testModel struct {
	*builder
	data    gorgonia.Nodes
	weights gorgonia.Nodes
	loss    *gorgonia.Node
	read    gorgonia.Value // of the prediction
}

func (m *testModel) grad() *testModel {
	m.t.Helper()
	if _, err := gorgonia.Grad(m.loss, m.weights...); err != nil {
		m.t.Fatal(err)
	}
	return m
}

// perceptron has two dense layers and a mean squared error.
func perceptron(d *builder) *testModel {
	m := &testModel{builder: d, data: gorgonia.Nodes{d.in("x", 8, 5), d.in("y", 8, 3)}}
	m.weights = gorgonia.Nodes{d.param("w0", 5, 7), d.param("b0", 1, 7), d.param("w1", 7, 3)}
	h := d.must(gorgonia.Rectify(d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(m.data[0], m.weights[0])), m.weights[1], nil, []byte{0}))))
	out := d.must(gorgonia.Mul(h, m.weights[2]))
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(out, m.data[1]))))))
	return m.grad()
}

// linear is a·x + c, with scalars a and c to be learned.
func linear(d *builder) *testModel {
	a, c := gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("a")), gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("c"))
	let(d.t, a, 0.5)
	let(d.t, c, 0.25)
	m := &testModel{builder: d, data: gorgonia.Nodes{d.in("x", 6), d.in("y", 6)}, weights: gorgonia.Nodes{a, c}}
	out := d.must(gorgonia.Add(d.must(gorgonia.HadamardProd(m.data[0], a)), c))
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(out, m.data[1]))))))
	return m.grad()
}

// recurrent has two steps of a gated cell with shared weights.
func recurrent(d *builder) *testModel {
	m := &testModel{builder: d, data: gorgonia.Nodes{d.in("x0", 4, 3), d.in("x1", 4, 3)}, weights: gorgonia.Nodes{d.param("w", 8, 10), d.param("s", 4, 5)}}
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

// convolution has a convolution, a pooling and a dense layer.
func convolution(d *builder) *testModel {
	m := &testModel{builder: d, data: gorgonia.Nodes{d.in("x", 2, 1, 6, 6)}, weights: gorgonia.Nodes{d.param("k", 3, 1, 3, 3), d.param("w", 27, 2)}}
	y := d.must(gorgonia.Conv2d(m.data[0], m.weights[0], tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	y = d.must(gorgonia.MaxPool2D(d.must(gorgonia.Rectify(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	out := d.must(gorgonia.Mul(d.must(gorgonia.Reshape(y, tensor.Shape{2, 27})), m.weights[1]))
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(out))))
	return m.grad()
}

// ofLayers is a network of package layers. A tape machine runs its operations by their float64 references.
func ofLayers(d *builder) *testModel {
	net := layers.New(d.g)
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
	m := &testModel{builder: d, data: gorgonia.Nodes{x}}
	for _, p := range net.Params() {
		m.weights = append(m.weights, p.Node)
	}
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(out))))
	return m.grad()
}
