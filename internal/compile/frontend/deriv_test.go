package frontend

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
)

// models are losses, and the weights that Gorgonia differentiates them for.
var models = []struct {
	name  string
	build func(d *graphtest.Draft) (loss *gorgonia.Node, weights gorgonia.Nodes)
}{
	{"classifier", func(d *graphtest.Draft) (*gorgonia.Node, gorgonia.Nodes) {
		b, i, h, o := d.Wide(), d.Wide(), d.Wide(), d.Wide()
		x, w0, b0, w1 := d.In(b, i), d.In(i, h), d.In(1, h), d.In(h, o)
		l0 := d.Must(gorgonia.Rectify(d.Must(gorgonia.BroadcastAdd(d.Must(gorgonia.Mul(x, w0)), b0, nil, []byte{0}))))
		p := d.Must(gorgonia.SoftMax(d.Must(gorgonia.Mul(l0, w1))))
		prod := d.Must(gorgonia.HadamardProd(d.Must(gorgonia.Log(p)), d.Of(d.Positive, b, o)))
		return d.Must(gorgonia.Neg(d.Must(gorgonia.Mean(prod)))), gorgonia.Nodes{w0, b0, w1}
	}},
	{"probabilities", func(d *graphtest.Draft) (*gorgonia.Node, gorgonia.Nodes) {
		b, i, o := d.Wide(), d.Wide(), d.Wide()
		w := d.In(i, o)
		p := d.Must(gorgonia.SoftMax(d.Must(gorgonia.Mul(d.In(b, i), w))))
		return d.Must(gorgonia.Mean(d.Must(gorgonia.Square(d.Must(gorgonia.Sub(p, d.In(b, o))))))), gorgonia.Nodes{w}
	}},
	{"gated recurrence", func(d *graphtest.Draft) (*gorgonia.Node, gorgonia.Nodes) {
		h := d.Wide()
		w := d.In(h, 2*h)
		s := d.In(d.Wide(), h)
		for range 2 {
			z := d.Must(gorgonia.Mul(s, w))
			gate := d.Must(gorgonia.Sigmoid(d.Must(gorgonia.Slice(z, nil, gorgonia.S(0, h)))))
			next := d.Must(gorgonia.Tanh(d.Must(gorgonia.Slice(z, nil, gorgonia.S(h, 2*h)))))
			s = d.Must(gorgonia.HadamardProd(gate, next))
		}
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Square(s)))), gorgonia.Nodes{w}
	}},
	{"convolution and pooling", func(d *graphtest.Draft) (*gorgonia.Node, gorgonia.Nodes) {
		c, o := d.Dim(), d.Wide()
		k := d.In(o, c, 3, 3)
		y := d.Must(gorgonia.Conv2d(d.In(d.Wide(), c, 4, 4), k, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		y = d.Must(gorgonia.MaxPool2D(d.Must(gorgonia.Tanh(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Square(y)))), gorgonia.Nodes{k}
	}},
	{"joined pieces", func(d *graphtest.Draft) (*gorgonia.Node, gorgonia.Nodes) {
		r := d.Wide()
		a, b := d.In(r, d.Wide()), d.In(r, d.Wide())
		j := d.Must(gorgonia.Transpose(d.Must(gorgonia.Concat(1, a, b))))
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Cube(j)))), gorgonia.Nodes{a, b}
	}},
}

// Gradient nodes that a program reads as values are lowered like any other.
func TestGradientNodesComputeTheSameAsGorgonia(t *testing.T) {
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			for s := range uint64(6) {
				s += seed.Value() * 100
				d := graphtest.New(rand.New(rand.NewPCG(s, 9)), tensor.Float64)
				loss, weights := m.build(d)
				dw, err := gorgonia.Grad(loss, weights...)
				if err != nil {
					t.Fatalf("seed %d: %v", s, err)
				}
				roots := append(gorgonia.Nodes{loss}, dw...)
				r, err := readGraph(training, roots...)
				if err != nil {
					t.Fatalf("seed %d: %v", s, err)
				}
				if err := r.run(); err != nil {
					t.Fatalf("seed %d: %v", s, err)
				}
				want, err := graphtest.Tape(roots...)
				if err != nil {
					t.Fatalf("seed %d: %v", s, err)
				}
				for i, n := range roots {
					if got := r.floats(r.values[n]); !graphtest.Near(got, want[i], 1e-9) {
						t.Errorf("seed %d: root %d: got %v, Gorgonia computes %v\n%v", s, i, got, want[i], r.Program)
					}
				}
			}
		})
	}
}
