package vm_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// A machine that trains moves the statistics, and a machine with Eval reads them: in Gorgonia's op, or in the nodes of
// package layers.
func TestMachinesShareRunningStatisticsThroughTheGraph(t *testing.T) {
	const eps, momentum = 1e-5, 0.1
	for name, build := range map[string]func(t *testing.T, g *gorgonia.ExprGraph, x *gorgonia.Node) (y *gorgonia.Node, stats func() (mean, variance []float64)){
		"gorgonia": func(t *testing.T, g *gorgonia.ExprGraph, x *gorgonia.Node) (*gorgonia.Node, func() (mean, variance []float64)) {
			gamma := gorgonia.NewTensor(g, tensor.Float64, 2, gorgonia.WithShape(1, 2), gorgonia.WithName("gamma"), gorgonia.WithInit(gorgonia.Ones()))
			beta := gorgonia.NewTensor(g, tensor.Float64, 2, gorgonia.WithShape(1, 2), gorgonia.WithName("beta"), gorgonia.WithInit(gorgonia.Zeroes()))
			y, _, _, op, err := gorgonia.BatchNorm(x, gamma, beta, momentum, eps)
			if err != nil {
				t.Fatal(err)
			}
			return y, func() (mean, variance []float64) {
				m, v := op.Stats()
				return elements(m.(gorgonia.Value)), elements(v.(gorgonia.Value))
			}
		},
		"layers": func(t *testing.T, g *gorgonia.ExprGraph, x *gorgonia.Node) (*gorgonia.Node, func() (mean, variance []float64)) {
			net := layers.New(g)
			net.Type = tensor.Float64
			y := net.BatchNorm(x, "bn", nil)
			if err := net.Values(1); err != nil {
				t.Fatal(err)
			}
			return y, func() (mean, variance []float64) {
				return elements(g.ByName("bn/mean")[0].Value()), elements(g.ByName("bn/variance")[0].Value())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				d := newBuilder(t, tensor.Float64, 1)
				x := d.in("x", 4, 2)
				y, stats := build(t, d.g, x)
				let(t, x, tensor.New(tensor.WithShape(4, 2), tensor.WithBacking([]float64{1, 0, 2, 0, 3, 4, 6, 4})))
				train, eval := newMachine(t, dev, d.g, vm.Options{}), newMachine(t, dev, d.g, vm.Options{Eval: true})
				mustRun(t, train)
				mean, variance := stats()
				// Channel 0: mean 3, variance 14/3 unbiased; channel 1: mean 2, variance 16/3.
				want := [2][]float64{{0.3, 0.2}, {0.9 + 1.4/3, 0.9 + 1.6/3}}
				if !allNear(mean, want[0], 1e-12) || !allNear(variance, want[1], 1e-12) {
					t.Fatalf("running statistics %v and %v, want %v", mean, variance, want)
				}
				mustRun(t, eval)
				got := elements(y.Value())
				for i, v := range elements(x.Value()) {
					if w := (v - want[0][i%2]) / math.Sqrt(want[1][i%2]+eps); math.Abs(got[i]-w) > 1e-12*max(1, math.Abs(w)) {
						t.Errorf("element %d: got %v, want %v", i, got[i], w)
					}
				}
				if m, v := stats(); !slices.Equal(m, mean) || !slices.Equal(v, variance) {
					t.Error("evaluation moved the running statistics")
				}
				// A batch whose variance is too large for its type is an error, and moves nothing.
				let(t, x, tensor.New(tensor.WithShape(4, 2), tensor.WithBacking([]float64{1, 0, 2, 0, 3, 4, 6, 1e155})))
				train.Reset()
				if err := train.RunAll(); !errors.Is(err, kernels.ErrNonFinite) || !strings.Contains(err.Error(), "variance of channel 1") {
					t.Errorf("got %v, want ErrNonFinite about the variance of channel 1", err)
				}
				if m, v := stats(); !slices.Equal(m, mean) || !slices.Equal(v, variance) {
					t.Error("a batch whose variance overflows moved the running statistics")
				}
			})
		})
	}
}
