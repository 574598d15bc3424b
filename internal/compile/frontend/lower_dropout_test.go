package frontend

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
)

func TestDropoutIsTheIdentityAfterTraining(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(1, 1)), tensor.Float32)
	x := d.In(3, 4)
	y := d.Must(gorgonia.Dropout(x, 0.5))
	for _, o := range []Options{inference, {Predict: true}} {
		r, err := readGraph(o, y)
		if err != nil {
			t.Fatal(err)
		}
		if r.values[y] != r.values[x] {
			t.Errorf("%+v: dropout is not the identity:\n%v", o, r.Program)
		}
	}
}

// Gorgonia's own gradient of dropout is wrong; the instructions for its node compute the right one.
func TestTheGradientNodeOfADropoutFollowsItsMask(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(1, 1)), tensor.Float32)
	x := d.Of(func() float64 { return 1 }, 20, 30)
	y := d.Must(gorgonia.Dropout(x, 0.25))
	dx, err := gorgonia.Grad(d.Must(gorgonia.Sum(y)), x)
	if err != nil {
		t.Fatal(err)
	}
	r, err := readGraph(training, y, dx[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	ys, ds := r.floats(r.values[y]), r.floats(r.values[dx[0]])
	if !slices.Equal(ys, ds) || slices.Max(ys) == slices.Min(ys) {
		t.Errorf("the gradient is %v, the mask %v", ds[:10], ys[:10])
	}
}
