package frontend

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// newNormalized is γ ⊙ norm(x ∗ w) + β as Gorgonia builds it: b images of 3 channels become c
// channels.
func newNormalized(b, c int) (d *graphtest.Draft, y *gorgonia.Node) {
	d = graphtest.New(rand.New(rand.NewPCG(seed.Value(), 4)), tensor.Float64)
	x, w, gamma, beta := d.In(b, 3, 5, 4), d.In(c, 3, 3, 3), d.Of(d.Positive, 1, c, 1, 1), d.In(1, c, 1, 1)
	conv := d.Must(gorgonia.Conv2d(x, w, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	y, _, _, _, err := gorgonia.BatchNorm(conv, gamma, beta, 0.25, 1e-3)
	d.Must(y, err)
	for _, m := range d.Graph.AllNodes() {
		if opKeyOf(m) == "*gorgonia.BatchNormOp" {
			gorgonia.WithName("bn")(m)
		}
	}
	return d, y
}

// A scale and a shift for each channel become part of the batch normalization unless another node
// reads the values between.
func TestScaleAndShiftArePartOfANormalization(t *testing.T) {
	d, y := newNormalized(3, 2)
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	if r.count(kernels.BatchNorm) != 1 || r.count(kernels.Mul) != 0 || r.count(kernels.Add) != 0 {
		t.Errorf("got\n%v, want a convolution and a normalization", r.Program)
	}
	bn := d.Graph.ByName("bn")[0]
	if r, err = readGraph(training, y, gorgonia.Read(bn, new(gorgonia.Value))); err != nil {
		t.Fatal(err)
	}
	if r.count(kernels.BatchNorm) != 1 || r.count(kernels.Mul) != 1 || r.count(kernels.Add) != 1 {
		t.Errorf("where another node reads it\n%v, want one normalization, a product and a sum", r.Program)
	}
}
