package frontend

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
)

// goldens are graphs whose programs are in testdata, a file for each.
var goldens = []struct {
	name    string
	options Options
	build   func(d *graphtest.Draft) *gorgonia.Node
}{
	{"classifier", training, func(d *graphtest.Draft) *gorgonia.Node {
		hidden := d.Must(gorgonia.BroadcastAdd(d.Must(gorgonia.Mul(d.In(4, 5), d.In(5, 6))), d.In(6), nil, []byte{0}))
		logits := d.Must(gorgonia.Mul(d.Must(gorgonia.Rectify(hidden)), d.In(6, 3)))
		likelihood := d.Must(gorgonia.HadamardProd(d.Must(gorgonia.Log(d.Must(gorgonia.SoftMax(logits)))), d.In(4, 3)))
		return d.Must(gorgonia.Neg(d.Must(gorgonia.Mean(d.Must(gorgonia.Sum(likelihood, 1))))))
	}},
	{"convolution", training, convolution},
	{"convolution-inference", inference, convolution},
	{"embedding", training, func(d *graphtest.Draft) *gorgonia.Node {
		return d.Must(gorgonia.Tanh(d.Must(gorgonia.ByIndices(d.In(7, 2), d.Ints(7, 3), 0))))
	}},
	{"dropout", training, func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.Dropout(d.In(3, 4), 0.5)) }},
	{"slices", training, func(d *graphtest.Draft) *gorgonia.Node {
		x := d.In(6, 4)
		a, b := d.Must(gorgonia.Slice(x, gorgonia.S(0, 2))), d.Must(gorgonia.Slice(x, nil, gorgonia.S(1)))
		return d.Must(gorgonia.Add(d.Must(gorgonia.Sum(a)), d.Must(gorgonia.Sum(b))))
	}},
	{"fallback", training, func(d *graphtest.Draft) *gorgonia.Node {
		return d.Must(gorgonia.Exp(d.Must(gorgonia.DiagFlat(d.In(3)))))
	}},
}

// convolution is max pooling of γ ⊙ norm(x ∗ w) + β.
func convolution(d *graphtest.Draft) *gorgonia.Node {
	conv := d.Must(gorgonia.Conv2d(d.In(2, 3, 6, 6), d.In(4, 3, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	y, _, _, _, err := gorgonia.BatchNorm(conv, d.In(1, 4, 1, 1), d.In(1, 4, 1, 1), 0.25, 1e-3)
	return d.Must(gorgonia.MaxPool2D(d.Must(y, err), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
}

// TestGraphsBecomePrograms compares the text of each program with its golden file.
func TestGraphsBecomePrograms(t *testing.T) {
	for _, c := range goldens {
		t.Run(c.name, func(t *testing.T) {
			d := graphtest.New(rand.New(rand.NewPCG(1, 2)), tensor.Float32)
			root := c.build(d)
			gorgonia.WithName("root")(root)
			r, err := readGraph(c.options, root)
			if err != nil {
				t.Fatal(err)
			}
			r.Needed = append(r.Needed, r.values[root])
			irtest.Compare(t, c.name, r.Program.String())
		})
	}
}
