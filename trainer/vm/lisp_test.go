package vm_test

import (
	"fmt"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// lispGradients returns the gradients of the weights that gorgonia.LispMachine computes.
func lispGradients(m *testModel) (grads [][]float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	machine := gorgonia.NewLispMachine(m.g)
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		return nil, err
	}
	for _, w := range m.weights {
		g, err := w.Grad()
		if err != nil {
			return nil, err
		}
		grads = append(grads, graphtest.Numbers(g))
	}
	return grads, nil
}

// undifferentiated has a loss of a small net, which a LispMachine differentiates itself.
func undifferentiated(d *builder, net string) *testModel {
	m := &testModel{builder: d}
	switch net {
	case "dense":
		x, y := d.param("x", 4, 3), d.param("y", 4, 2)
		m.weights = gorgonia.Nodes{d.param("w0", 3, 5), d.param("b0", 5), d.param("w1", 5, 2), d.param("b1", 2)}
		h := d.must(gorgonia.Rectify(d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(x, m.weights[0])), m.weights[1], nil, []byte{0}))))
		out := d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(h, m.weights[2])), m.weights[3], nil, []byte{0}))
		m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(out, y))))))
	case "convolution":
		x := d.param("x", 2, 1, 6, 6)
		m.weights = gorgonia.Nodes{d.param("k", 3, 1, 3, 3), d.param("w", 27, 2)}
		y := d.must(gorgonia.Conv2d(x, m.weights[0], tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		y = d.must(gorgonia.MaxPool2D(d.must(gorgonia.Rectify(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Mul(d.must(gorgonia.Reshape(y, tensor.Shape{2, 27})), m.weights[1]))))))
	}
	return m
}

// A LispMachine differentiates while it runs, and refuses graphs that gorgonia.Grad has differentiated (then it writes a file, err.dot).
// Where it runs, our gradients are those that it computes.
func TestGradientsAreThoseOfALispMachine(t *testing.T) {
	for _, net := range []string{"dense", "convolution"} {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
			t.Run(net+"/"+dt.String(), func(t *testing.T) {
				want, err := lispGradients(undifferentiated(newBuilder(t, dt, 1), net))
				if err != nil {
					t.Fatal(err)
				}
				tol := 1e-10
				if dt == tensor.Float32 {
					tol = 1e-4
				}
				each(t, func(t *testing.T, dev kernels.Device) {
					m := undifferentiated(newBuilder(t, dt, 1), net).grad()
					mustRun(t, newMachine(t, dev, m.g, vm.Options{}))
					for k, w := range m.weights {
						if got := graphtest.Numbers(gradOf(t, w)); !allNear(got, want[k], tol) {
							t.Errorf("%s: got %v, want %v", w.Name(), got, want[k])
						}
					}
				})
			})
		}
	}
}
