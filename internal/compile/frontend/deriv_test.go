package frontend

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
)

// models are losses, and the weights that Gorgonia differentiates them for.
var models = []struct {
	name  string
	build func(d *draft) (loss *gorgonia.Node, weights gorgonia.Nodes)
}{
	{"classifier", func(d *draft) (*gorgonia.Node, gorgonia.Nodes) {
		b, i, h, o := d.wide(), d.wide(), d.wide(), d.wide()
		x, w0, b0, w1 := d.in(b, i), d.in(i, h), d.in(1, h), d.in(h, o)
		l0 := d.must(gorgonia.Rectify(d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(x, w0)), b0, nil, []byte{0}))))
		p := d.must(gorgonia.SoftMax(d.must(gorgonia.Mul(l0, w1))))
		prod := d.must(gorgonia.HadamardProd(d.must(gorgonia.Log(p)), d.of(d.positive, b, o)))
		return d.must(gorgonia.Neg(d.must(gorgonia.Mean(prod)))), gorgonia.Nodes{w0, b0, w1}
	}},
	{"probabilities", func(d *draft) (*gorgonia.Node, gorgonia.Nodes) {
		b, i, o := d.wide(), d.wide(), d.wide()
		w := d.in(i, o)
		p := d.must(gorgonia.SoftMax(d.must(gorgonia.Mul(d.in(b, i), w))))
		return d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(p, d.in(b, o))))))), gorgonia.Nodes{w}
	}},
	{"gated recurrence", func(d *draft) (*gorgonia.Node, gorgonia.Nodes) {
		h := d.wide()
		w := d.in(h, 2*h)
		s := d.in(d.wide(), h)
		for range 2 {
			z := d.must(gorgonia.Mul(s, w))
			gate := d.must(gorgonia.Sigmoid(d.must(gorgonia.Slice(z, nil, gorgonia.S(0, h)))))
			next := d.must(gorgonia.Tanh(d.must(gorgonia.Slice(z, nil, gorgonia.S(h, 2*h)))))
			s = d.must(gorgonia.HadamardProd(gate, next))
		}
		return d.must(gorgonia.Sum(d.must(gorgonia.Square(s)))), gorgonia.Nodes{w}
	}},
	{"convolution and pooling", func(d *draft) (*gorgonia.Node, gorgonia.Nodes) {
		c, o := d.dim(), d.wide()
		k := d.in(o, c, 3, 3)
		y := d.must(gorgonia.Conv2d(d.in(d.wide(), c, 4, 4), k, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		y = d.must(gorgonia.MaxPool2D(d.must(gorgonia.Tanh(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		return d.must(gorgonia.Sum(d.must(gorgonia.Square(y)))), gorgonia.Nodes{k}
	}},
	{"joined pieces", func(d *draft) (*gorgonia.Node, gorgonia.Nodes) {
		r := d.wide()
		a, b := d.in(r, d.wide()), d.in(r, d.wide())
		j := d.must(gorgonia.Transpose(d.must(gorgonia.Concat(1, a, b))))
		return d.must(gorgonia.Sum(d.must(gorgonia.Cube(j)))), gorgonia.Nodes{a, b}
	}},
}

// Gradient nodes that a program reads as values are lowered like any other.
func TestGradientNodesComputeTheSameAsGorgonia(t *testing.T) {
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			for s := range uint64(6) {
				s += seed.Value() * 100
				d := newDraft(rand.New(rand.NewPCG(s, 9)), tensor.Float64)
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
				want, err := tape(roots...)
				if err != nil {
					t.Fatalf("seed %d: %v", s, err)
				}
				for i, n := range roots {
					if got := r.floats(r.values[n]); !near(got, want[i], 1e-9) {
						t.Errorf("seed %d: root %d: got %v, Gorgonia computes %v\n%v", s, i, got, want[i], r.Program)
					}
				}
			}
		})
	}
}
