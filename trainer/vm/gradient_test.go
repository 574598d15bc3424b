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

// In x + y both inputs share one gradient node. On a tape machine the solver zeroes it after the first input, so that the
// second does not move.
func TestInputsThatShareAGradientNodeHaveGradientsOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, bind := range []bool{false, true} {
			d := newBuilder(t, tensor.Float64, 1)
			x, y := d.in("x", 2), d.in("y", 2)
			let(t, x, vector(1, 2))
			let(t, y, vector(3, 4))
			loss := d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.Add(x, y))))))
			m := &testModel{builder: d, loss: loss, weights: gorgonia.Nodes{x, y}}
			m.grad()
			opt := vm.Options{}
			if bind {
				opt.Bind = m.weights
			}
			mustRun(t, newMachine(t, dev, d.g, opt))
			wantValue(t, "gradient of x", gradOf(t, x), 8, 12)
			wantValue(t, "gradient of y", gradOf(t, y), 8, 12)
			if err := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.5)).Step(gorgonia.NodesToValueGrads(m.weights)); err != nil {
				t.Fatal(err)
			}
			wantValue(t, "x", x.Value(), -3, -4)
			wantValue(t, "y", y.Value(), -1, -2)
		}
	})
}

func TestGradientsAddUpOnlyWhereBoundAndDerivIsTheSameValue(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, y := d.in("x", 2), d.in("y", 2)
		let(t, x, vector(1, 2))
		let(t, y, vector(3, 4))
		loss := d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(d.must(gorgonia.Square(x)), y))))
		m := &testModel{builder: d, loss: loss, weights: gorgonia.Nodes{x, y}}
		m.grad()
		machine := newMachine(t, dev, d.g, vm.Options{Bind: gorgonia.Nodes{x}})
		for i := range 3 {
			mustRun(t, machine)
			k := float64(i + 1)
			wantValue(t, "gradient of x", gradOf(t, x), 6*k, 16*k)
			wantValue(t, "gradient of y", gradOf(t, y), 1, 4)
			wantValue(t, "Deriv of y", y.Deriv().Value(), 1, 4)
		}
		gradOf(t, x).(*tensor.Dense).Zero()
		mustRun(t, machine)
		wantValue(t, "gradient of x set to zero", gradOf(t, x), 6, 16)
		if err := machine.Close(); err != nil {
			t.Fatal(err)
		}
		wantValue(t, "gradient of x after Close", gradOf(t, x), 6, 16)
		wantValue(t, "gradient of y after Close", gradOf(t, y), 1, 4)
	})
}

// The gradient of a row is a product whose summand looks like the bias of a matmul.
func TestGradientsOfARowVectorAddUp(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, w := d.in("x", 2, 1), d.in("w", 1, 3)
		let(t, x, tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float64{1, 2})))
		let(t, w, tensor.New(tensor.WithShape(1, 3), tensor.WithBacking([]float64{1, 2, 3})))
		m := &testModel{builder: d, loss: d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.Mul(x, w)))))), weights: gorgonia.Nodes{w}}
		m.grad()
		machine := newMachine(t, dev, d.g, vm.Options{Bind: m.weights})
		for k := 1.0; k <= 3; k++ {
			mustRun(t, machine)
			wantValue(t, "gradient", gradOf(t, w), 10*k, 20*k, 30*k)
		}
	})
}

func TestProgramsCanComputeWithAndReadGradients(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.in("x", 2)
		let(t, x, vector(1, 2))
		loss := d.must(gorgonia.Sum(d.must(gorgonia.Square(x))))
		grads, err := gorgonia.Grad(loss, x)
		if err != nil {
			t.Fatal(err)
		}
		var read gorgonia.Value
		gorgonia.Read(grads[0], &read)
		norm := d.must(gorgonia.Sum(d.must(gorgonia.Square(grads[0]))))
		machine := newMachine(t, dev, d.g, vm.Options{Bind: gorgonia.Nodes{x}})
		for i := range 2 {
			mustRun(t, machine)
			wantValue(t, "read gradient", read, 2, 4)
			wantValue(t, "squared norm", norm.Value(), 20)
			wantValue(t, "sum of gradients", gradOf(t, x), 2*float64(i+1), 4*float64(i+1))
		}
		wantValue(t, "loss", loss.Value(), 5)
	})
}

// The same 8 samples are split into 1, 2, 4 and 8 batches, and a machine adds up their gradients. The loss of each batch
// is weighted by its samples, so that the sum is the gradient of the mean over all 8.
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

// normal returns n normally distributed numbers.
func normal(r *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	for i := range d {
		d[i] = r.NormFloat64()
	}
	return d
}

// windowGradient returns the gradient of the mean squared error of tanh(xw) by w, over 8 samples in batches of rows.
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

// As gorgonia.BindDualValues does.
func TestBindIgnoresNodesWithoutGradientsAndAnEmptyListBindsAll(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, all := range []bool{false, true} {
			d, other := newBuilder(t, tensor.Float64, 1), newBuilder(t, tensor.Float64, 1)
			x, y, lonely := d.in("x", 2), d.in("y", 2), d.param("lonely", 2)
			let(t, x, vector(1, 2))
			let(t, y, vector(3, 4))
			m := &testModel{builder: d, loss: d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(x, y)))), weights: gorgonia.Nodes{x, y}}
			free := d.must(gorgonia.Neg(lonely))
			m.grad()
			opt := vm.Options{Bind: gorgonia.Nodes{x, lonely, free, other.param("x", 2), nil}}
			if all {
				opt.Bind = gorgonia.Nodes{}
			}
			machine := newMachine(t, dev, d.g, opt)
			for range 2 {
				mustRun(t, machine)
			}
			wantValue(t, "gradient of x", gradOf(t, x), 6, 8)
			if all {
				wantValue(t, "gradient of y", gradOf(t, y), 2, 4)
			} else {
				wantValue(t, "gradient of y", gradOf(t, y), 1, 2)
			}
		}
	})
}
