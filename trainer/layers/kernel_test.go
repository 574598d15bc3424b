package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// layerCase is a layer over one input of a random batch.
type layerCase struct {
	name  string
	in    []int // shape of x
	out   []int
	build func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node
}

// layerCases lists every layer that wraps an operation of ours, in the forms that differ.
func layerCases() []layerCase {
	square := layers.Square
	return []layerCase{
		{"conv", []int{2, 3, 6, 5}, []int{2, 4, 4, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Conv(x, "c", layers.Conv2D{Out: 4, Kernel: square(3)}, nil)
		}},
		{"conv with everything", []int{2, 4, 7, 8}, []int{2, 6, 4, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Conv(x, "c", layers.Conv2D{Out: 6, Kernel: [2]int{3, 2}, Stride: [2]int{2, 3}, Pad: [2]int{2, 1}, Dilation: [2]int{2, 1}, Groups: 2}, layers.Tanh)
		}},
		{"depthwise conv without bias", []int{1, 3, 5, 5}, []int{1, 3, 5, 5}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Conv(x, "c", layers.Conv2D{Out: 3, Kernel: square(3), Pad: square(1), Groups: 3, NoBias: true}, layers.Sigmoid)
		}},
		{"two convs", []int{1, 1, 4, 4}, []int{1, 2, 4, 4}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			h := n.Conv(x, "c1", layers.Conv2D{Out: 2, Kernel: square(1)}, layers.Tanh)
			return n.Conv(h, "c2", layers.Conv2D{Out: 2, Kernel: square(1)}, nil) // the same except for its weights
		}},
		{"max pool", []int{2, 2, 5, 7}, []int{2, 2, 2, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.MaxPool(x, "p", layers.Pool{Kernel: square(2)}) // a row and a column are left over
		}},
		{"overlapping max pool", []int{1, 2, 5, 5}, []int{1, 2, 3, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.MaxPool(x, "p", layers.Pool{Kernel: square(3), Stride: square(2), Pad: square(1)})
		}},
		{"average pool", []int{1, 2, 6, 5}, []int{1, 2, 3, 5}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.AvgPool(x, "p", layers.Pool{Kernel: square(3), Stride: [2]int{2, 1}, Pad: square(1)})
		}},
		{"batch norm of rows", []int{5, 3}, []int{5, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.BatchNorm(x, "n", layers.Tanh)
		}},
		{"batch norm of images", []int{2, 3, 2, 3}, []int{2, 3, 2, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.BatchNorm(x, "n", nil)
		}},
		{"layer norm", []int{2, 3, 5}, []int{2, 3, 5}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.LayerNorm(x, "n")
		}},
		{"group norm", []int{2, 6, 2, 2}, []int{2, 6, 2, 2}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.GroupNorm(x, "n", 3)
		}},
		{"one layer of two inputs", []int{4, 3}, []int{4, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			s := n.Shared("s")
			return s.Dense(s.Dense(x, "d", 3, layers.Tanh), "d", 3, layers.Sigmoid)
		}},
		{"batch norm of two inputs", []int{5, 3}, []int{5, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			s := n.Scope("outer").Shared("inner")
			return s.BatchNorm(n.Affine(s.BatchNorm(x, "n", layers.Tanh), "moved", 2, 3), "n", nil)
		}},
		{"a matrix and its transposed", []int{4, 3}, []int{4, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			h := n.Scope("s").Dense(x, "d", 2, layers.Tanh)
			return n.MatMul(h, n.Parameter("s/d/w"), "back", layers.Transposed{B: true})
		}},
		{"residual", []int{3, 4}, []int{3, 4}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Residual(x, "r", func(x *gorgonia.Node) *gorgonia.Node { return n.Dense(x, "d", 4, layers.Tanh) }, layers.Tanh)
		}},
		{"residual with a projection", []int{2, 2, 5, 4}, []int{2, 3, 3, 2}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Residual(x, "r", func(x *gorgonia.Node) *gorgonia.Node {
				c := layers.Conv2D{Out: 3, Kernel: square(3), Stride: square(2), Pad: square(1), NoBias: true}
				return n.BatchNorm(n.Conv(x, "c", c, nil), "n", nil)
			}, layers.ReLU)
		}},
		{"lstm", []int{2, 3, 4}, []int{2, 5}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			_, last := n.LSTM(x, "l", layers.Recurrent{Units: 5})
			return last
		}},
		{"gru of one step, backwards", []int{2, 1, 4}, []int{2, 1, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			all, _ := n.GRU(x, "l", layers.Recurrent{Units: 3, Reverse: true})
			return all
		}},
		{"attention", []int{2, 3, 4}, []int{2, 3, 4}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Attention(x, "a", layers.Attention{Heads: 2, Causal: true})
		}},
		{"global average pool", []int{2, 3, 4, 5}, []int{2, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.GlobalAvgPool(x, "p")
		}},
	}
}

// TestEveryLayerHasItsShapeAndItsGradientOnATapeMachine compares Gorgonia's gradients of every input and parameter with central
// differences of the loss Σ y·r, r random.
func TestEveryLayerHasItsShapeAndItsGradientOnATapeMachine(t *testing.T) {
	for _, c := range layerCases() {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed.Value(), 7))
			net := layers.New(gorgonia.NewGraph())
			net.Type = tensor.Float64
			x := net.Input("x", c.in...)
			y := c.build(net, x)
			if net.Err() != nil {
				t.Fatal(net.Err())
			}
			if !slices.Equal(y.Shape(), c.out) {
				t.Fatalf("shape %v, want %v", y.Shape(), c.out)
			}
			differences(t, r, net, y)
		})
	}
}

// differences checks the gradients of Σ y·r, r random, in every float leaf of the net.
func differences(t *testing.T, r *rand.Rand, net *layers.Net, y *gorgonia.Node) {
	t.Helper()
	weights := net.Input("random weights", y.Shape()...)
	loss := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(y, weights))))
	var leaves gorgonia.Nodes
	for _, x := range net.Inputs() {
		if x.Dtype() == tensor.Float64 {
			leaves = append(leaves, x)
		}
	}
	for _, p := range net.Params() {
		leaves = append(leaves, p.Node)
	}
	grads, err := gorgonia.Grad(loss, leaves...)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range leaves {
		bind(t, x, reals(r, x.Shape().TotalSize()))
	}
	for _, s := range net.Statistics() {
		bind(t, s.Node, slices.Repeat([]float64{0.7}, s.Node.Shape().TotalSize()))
	}
	m := gorgonia.NewTapeMachine(y.Graph())
	defer m.Close()
	at := func() float64 {
		m.Reset()
		if err := m.RunAll(); err != nil {
			t.Fatal(err)
		}
		return numbers(t, loss.Value())[0]
	}
	at()
	got := make([][]float64, len(leaves))
	for k := range leaves {
		got[k] = numbers(t, grads[k].Value())
	}
	const h = 1e-5
	for k, x := range leaves {
		d := x.Value().Data().([]float64)
		if len(got[k]) != len(d) {
			t.Fatalf("gradient of %s has %d elements, want %d", x.Name(), len(got[k]), len(d))
		}
		for range min(len(d), 10) {
			i := r.IntN(len(d))
			was := d[i]
			d[i] = was + h
			up := at()
			d[i] = was - h
			down := at()
			d[i] = was
			want := (up - down) / (2 * h)
			// Central differences are off by h²/6 times a third derivative and by rounding/h, about 1e-9 here.
			if math.Abs(got[k][i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("gradient of %s at %d is %v, differences say %v (EVENKEEL_SEED=%d)", x.Name(), i, got[k][i], want, seed.Value())
			}
		}
	}
}

func TestEmbeddingTakesRowsAndGivesThemTheirGradients(t *testing.T) {
	for _, dims := range [][]int{{5}, {3, 2}} {
		t.Run(fmt.Sprint(dims), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed.Value(), 8))
			net := layers.New(gorgonia.NewGraph())
			net.Type = tensor.Float64
			index := net.Indices("words", dims...)
			y := net.Embedding(index, "e", 4, 3)
			if net.Err() != nil {
				t.Fatal(net.Err())
			}
			if want := append(slices.Clone(dims), 3); !slices.Equal(y.Shape(), want) {
				t.Fatalf("shape %v, want %v", y.Shape(), want)
			}
			at := []int{3, 1, 3, 0, 9, 1}[:tensor.Shape(dims).TotalSize()] // one twice, one outside
			let(t, index, tensor.New(tensor.WithShape(dims...), tensor.WithBacking(at)))
			var read gorgonia.Value
			gorgonia.Read(y, &read)
			differences(t, r, net, y)
			run(t, y.Graph())
			table := numbers(t, net.Params()[0].Node.Value())
			var want []float64
			for _, i := range at {
				row := make([]float64, 3)
				if i < 4 {
					row = table[3*i : 3*i+3]
				}
				want = append(want, row...)
			}
			near(t, "rows", tensor.Float64, numbers(t, read), want)
		})
	}
}

func TestConvIsGorgoniasConvolution(t *testing.T) {
	for _, dt := range types {
		r := rand.New(rand.NewPCG(seed.Value(), 9))
		g := gorgonia.NewGraph()
		net := layers.New(g)
		net.Type = dt
		x := net.Input("x", 2, 3, 7, 6)
		y := net.Conv(x, "c", layers.Conv2D{Out: 4, Kernel: [2]int{3, 2}, Pad: layers.Square(1), Stride: [2]int{2, 1}, NoBias: true}, nil)
		if net.Err() != nil {
			t.Fatal(net.Err())
		}
		w := net.Params()[0].Node
		want := gorgonia.Must(gorgonia.Conv2d(x, w, tensor.Shape{3, 2}, []int{1, 1}, []int{2, 1}, []int{1, 1}))
		bind(t, x, reals(r, x.Shape().TotalSize()))
		bind(t, w, reals(r, w.Shape().TotalSize()))
		var a, b gorgonia.Value
		gorgonia.Read(y, &a)
		gorgonia.Read(want, &b)
		run(t, g)
		near(t, "conv", dt, numbers(t, a), numbers(t, b))
	}
}
