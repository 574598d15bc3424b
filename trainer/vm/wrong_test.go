package vm_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// What a tape machine computes or differentiates wrongly is right on every device.
func TestWhatATapeMachineComputesWronglyIsRight(t *testing.T) {
	for _, c := range graphtest.Wrongs {
		t.Run(c.Name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
				loss, want := c.Build(d)
				if _, err := vm.Grad(loss, d.Inputs...); err != nil {
					t.Fatal(err)
				}
				m := newMachine(t, dev, d.Graph, vm.Options{Logger: slog.New(slog.DiscardHandler)})
				mustRun(t, m)
				var x, dx []float64
				for _, n := range d.Inputs {
					x = append(x, graphtest.Numbers(n.Value())...)
					dx = append(dx, graphtest.Numbers(gradOf(t, n))...)
				}
				if got, w := graphtest.Numbers(loss.Value()), want(x); !graphtest.Near(got, []float64{w}, 1e-12) {
					t.Errorf("seed %d: got %v, want %v", seed.Value(), got, w)
				}
				for i, w := range graphtest.Slopes(want, x) {
					if !graphtest.Near(dx[i:i+1], []float64{w}, 1e-6) {
						t.Fatalf("seed %d: gradient %d: got %v, want %v", seed.Value(), i, dx[i], w)
					}
				}
			})
		})
	}
}

// A tape machine still fails where the table of docs/from-gorgonia.md says so: a
// version of Gorgonia that does not needs another table.
func TestATapeMachineStillComputesIntegersWrongly(t *testing.T) {
	run := func(build func(g *gorgonia.ExprGraph) (*gorgonia.Node, error)) error {
		g := gorgonia.NewGraph()
		if _, err := build(g); err != nil {
			t.Fatal(err)
		}
		m := gorgonia.NewTapeMachine(g)
		defer m.Close()
		return m.RunAll()
	}
	if run(func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
		return gorgonia.Pow(integerVector(t, g, "a", []int{2, 3}), integerVector(t, g, "b", []int{2, 3}))
	}) == nil {
		t.Error("a tape machine computes powers of integers")
	}
	if run(func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
		return gorgonia.Add(integerVector(t, g, "a", []int{2, 3}), gorgonia.NewConstant(2))
	}) == nil {
		t.Error("a tape machine adds a scalar to a tensor of integers")
	}
}
