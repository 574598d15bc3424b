package vm_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// TestGradientsOfAWindowAreThoseOfItsSamples splits the same 8 samples into 1, 2, 4 and 8 batches, whose gradients a machine adds up. With
// the loss of each batch weighted by its samples, the sum is the gradient of the mean over all 8.
func TestGradientsOfAWindowAreThoseOfItsSamples(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		r := random(t)
		x, y, w := normal(r, 8*3), normal(r, 8*2), normal(r, 3*2)
		want := windowGradient(t, dev, 8, x, y, w)
		for _, rows := range []int{4, 2, 1} {
			got := windowGradient(t, dev, rows, x, y, w)
			for i := range want {
				if !about(got[i], want[i], 1e-12) { // float64, sums of at most 8 terms in another order
					t.Errorf("batches of %d: gradient %v, want %v", rows, got, want)
					break
				}
			}
		}
	})
}

func normal(r *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	for i := range d {
		d[i] = r.NormFloat64()
	}
	return d
}

// windowGradient returns the gradient of the mean squared error of tanh(xw) by w, over 8 samples taken in batches of so many rows.
func windowGradient(t *testing.T, dev kernels.Device, rows int, x, y, weights []float64) []float64 {
	g := gorgonia.NewGraph()
	in := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(rows, 3), gorgonia.WithName("x"))
	target := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(rows, 2), gorgonia.WithName("y"))
	w := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(3, 2), gorgonia.WithName("w"),
		gorgonia.WithValue(tensor.New(tensor.WithShape(3, 2), tensor.WithBacking(slices.Clone(weights)))))
	out := gorgonia.Must(gorgonia.Tanh(gorgonia.Must(gorgonia.Mul(in, w))))
	mean := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Sub(out, target))))))
	loss := gorgonia.Must(gorgonia.Mul(mean, gorgonia.NewConstant(float64(rows)/8)))
	if _, err := gorgonia.Grad(loss, w); err != nil {
		t.Fatal(err)
	}
	m, err := vm.New(g, vm.Options{Device: dev, Bind: gorgonia.Nodes{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for at := 0; at < 8; at += rows {
		for n, v := range map[*gorgonia.Node]*tensor.Dense{
			in:     tensor.New(tensor.WithShape(rows, 3), tensor.WithBacking(slices.Clone(x[at*3:(at+rows)*3]))),
			target: tensor.New(tensor.WithShape(rows, 2), tensor.WithBacking(slices.Clone(y[at*2:(at+rows)*2]))),
		} {
			if err := gorgonia.Let(n, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.RunAll(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := w.Grad()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(d.Data().([]float64))
}
