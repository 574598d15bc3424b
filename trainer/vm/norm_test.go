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

// On tape machines, the one that was made last decides for all.
func TestTheModeIsThatOfTheMachineAlone(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.param("x", 64, 2)
		norm, _, _, op, err := gorgonia.BatchNorm(x, d.param("gamma", 64, 2), d.param("beta", 64, 2), 0.5, 1e-5)
		dropped := d.must(gorgonia.Dropout(d.must(norm, err), 0.5))
		root := d.must(gorgonia.Abs(dropped))
		last := func(opts ...gorgonia.VMOpt) { gorgonia.NewTapeMachine(d.g, opts...).Close() }
		last(gorgonia.EvalMode())
		train := newMachine(t, dev, d.g, vm.Options{})
		last()
		eval := newMachine(t, dev, d.g, vm.Options{Eval: true})
		for range 2 {
			for _, m := range []*vm.Machine{train, eval} {
				mean, _ := op.Stats()
				before := slices.Clone(mean.Data().([]float64))
				mustRun(t, m)
				zeros := slices.Contains(elements(root.Value()), 0)
				moved := !slices.Equal(mean.Data().([]float64), before)
				if training := m == train; zeros != training || moved != training {
					t.Errorf("trains %v: elements are dropped: %v, statistics move: %v", training, zeros, moved)
				}
			}
		}
	})
}

// Windows with a NaN have the maximum NaN; on a tape machine the gradient then panics, and the
// program ends.
func TestMaxPoolingOverNaNHasAGradient(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.in("x", 1, 1, 2, 4)
		let(t, x, tensor.New(tensor.WithShape(1, 1, 2, 4), tensor.WithBacking([]float64{1, 4, math.NaN(), 5, 2, 3, 7, 6})))
		y := d.must(gorgonia.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		w := d.in("w", 1, 1, 1, 2)
		let(t, w, tensor.New(tensor.WithShape(1, 1, 1, 2), tensor.WithBacking([]float64{10, 20})))
		if _, err := gorgonia.Grad(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(y, w)))), x); err != nil {
			t.Fatal(err)
		}
		mustRun(t, newMachine(t, dev, d.g, vm.Options{Keep: gorgonia.Nodes{y}}))
		if got := elements(y.Value()); got[0] != 4 || !math.IsNaN(got[1]) {
			t.Errorf("got %v, want 4 and NaN", got)
		}
		wantValue(t, "gradient", gradOf(t, x), 0, 10, 20, 0, 0, 0, 0, 0)
	})
}

// Where the padding of opposite sides differs, a tape machine computes something else.
func TestThePlanMarksMaxPoolingWithUnequalPadding(t *testing.T) {
	dev := openCPU(t)
	for _, c := range []struct {
		pad  []int // top, bottom, left, right
		want bool
	}{{[]int{1, 0, 0, 0}, true}, {[]int{0, 0, 0, 1}, true}, {[]int{1, 1, 0, 0}, false}, {[]int{1, 1}, false}} {
		d := newBuilder(t, tensor.Float64, 1)
		y := d.must(gorgonia.MaxPool2D(d.param("x", 1, 1, 4, 4), tensor.Shape{2, 2}, c.pad, []int{1, 1}))
		gorgonia.WithName("pool")(y)
		plan := newMachine(t, dev, d.g, vm.Options{}).Plan()
		marked := slices.ContainsFunc(plan.Programs[0].Notes, func(n string) bool {
			return strings.HasPrefix(n, "pool: ") && strings.Contains(n, "padding")
		})
		if marked != c.want || strings.Contains(plan.String(), "each side has its own padding") != c.want {
			t.Errorf("padding %v: marked %v, want %v\n%v", c.pad, marked, c.want, plan)
		}
		if c.want { // so that the mark is worth its line
			tape := gorgonia.NewTapeMachine(d.g)
			mustRun(t, tape)
			theirs := elements(y.Value())
			tape.Close()
			mustRun(t, newMachine(t, dev, d.g, vm.Options{}))
			if slices.Equal(elements(y.Value()), theirs) {
				t.Errorf("padding %v: the tape machine computes the same", c.pad)
			}
		}
	}
}

// Gorgonia makes one node of both, so that nothing can tell them apart.
func TestAveragePool1DIsMaxPooling(t *testing.T) {
	d := newBuilder(t, tensor.Float64, 1)
	x := d.param("x", 1, 1, 1, 4)
	if a, b := d.must(gorgonia.AveragePool1D(x, 2, 0, 2)), d.must(gorgonia.MaxPool1D(x, 2, 0, 2)); a != b {
		t.Errorf("Gorgonia made %v and %v", a, b)
	}
}
