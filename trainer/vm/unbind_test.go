package vm_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestUnbindAllKeepsParameters(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newBuilder(t, tensor.Float64, random(t).Uint64()))
		machine := newMachine(t, dev, m.g, vm.Options{Bind: m.weights[:1]})
		solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1))
		data := []*tensor.Dense{randomTensor(m.r, m.dt, 8, 5), randomTensor(m.r, m.dt, 8, 3)}
		let(t, m.data[0], data[0].Clone())
		let(t, m.data[1], data[1].Clone())
		mustRun(t, machine)
		if err := solver.Step(gorgonia.NodesToValueGrads(m.weights)); err != nil {
			t.Fatal(err)
		}
		mustRun(t, machine)
		want := elements(m.loss.Value())
		grad := elements(gradOf(t, m.weights[1]))
		m.g.UnbindAll()
		if err := machine.RunAll(); !errors.Is(err, vm.ErrData) {
			t.Fatalf("got %v, want an error about the data, which are gone", err)
		}
		// What UnbindAll blanked is used again by others.
		for range 40 {
			tensor.New(tensor.Of(m.dt), tensor.WithShape(5, 7))
		}
		let(t, m.data[0], data[0])
		let(t, m.data[1], data[1])
		mustRun(t, machine)
		wantValue(t, "loss", m.loss.Value(), want...)
		wantValue(t, "gradient", gradOf(t, m.weights[1]), grad...)
	})
}

// columnSums returns the gradient of Σ x·w by w, for x [2, 3] and w [3, 4]: each column of w has the column sums of x.
func columnSums(x []float64) []float64 {
	var g []float64
	for k := range 3 {
		sum := x[k] + x[3+k]
		g = append(g, sum, sum, sum, sum)
	}
	return g
}

// Nodes that are made with a value share its shape, which UnbindAll sets to zeros.
func TestUnbindAllKeepsNodesThatWereMadeWithValues(t *testing.T) {
	for _, bind := range []bool{false, true} {
		t.Run(fmt.Sprintf("bind %v", bind), func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				d := newBuilder(t, tensor.Float64, random(t).Uint64())
				xMatrix := func() *tensor.Dense { return randomTensor(d.r, d.dt, 2, 3) }
				wMatrix := func() *tensor.Dense { return randomTensor(d.r, d.dt, 3, 4) }
				xv, wv := xMatrix(), wMatrix()
				w0 := slices.Clone(wv.Float64s())
				x := gorgonia.NewTensor(d.g, d.dt, 2, gorgonia.WithName("x"), gorgonia.WithValue(xv))
				w := gorgonia.NewTensor(d.g, d.dt, 2, gorgonia.WithName("w"), gorgonia.WithValue(wv))
				cost := d.must(gorgonia.Sum(d.must(gorgonia.Mul(x, w))))
				var read gorgonia.Value
				gorgonia.Read(w, &read)
				if _, err := gorgonia.Grad(cost, w); err != nil {
					t.Fatal(err)
				}
				opt := vm.Options{}
				if bind {
					opt.Bind = gorgonia.Nodes{w}
				}
				machine := newMachine(t, dev, d.g, opt)
				mustRun(t, machine)
				for i := range 12 {
					d.g.UnbindAll()
					var missing *vm.ValueError
					if err := machine.RunAll(); !errors.As(err, &missing) || !slices.Equal(missing.Nodes, []string{"x"}) && i < 6 {
						t.Fatalf("round %d: got %v, want a ValueError about x", i, err)
					}
					xv := xMatrix()
					xs := slices.Clone(xv.Float64s())
					var others []*tensor.Dense // of the program: they use what UnbindAll blanked
					for range i {
						others = append(others, randomTensor(d.r, d.dt, 5, 7))
					}
					let(t, x, xv)
					if i >= 6 {
						wv := wMatrix()
						w0 = slices.Clone(wv.Float64s())
						let(t, w, wv)
					}
					mustRun(t, machine)
					wantValue(t, fmt.Sprintf("round %d: gradient", i), gradOf(t, w), columnSums(xs)...)
					wantValue(t, fmt.Sprintf("round %d: x", i), x.Value(), xs...)
					wantValue(t, fmt.Sprintf("round %d: w", i), w.Value(), w0...)
					wantValue(t, fmt.Sprintf("round %d: read", i), read, w0...)
					for k, o := range others {
						if o.Shape().TotalSize() != 35 || o.Dtype() != d.dt {
							t.Errorf("round %d: tensor %d of the program is %v %v by now", i, k, o.Dtype(), o.Shape())
						}
					}
				}
			})
		})
	}
}

func TestATensorThatUnbindAllOfAnotherGraphEmptiedIsNoValue(t *testing.T) {
	d, other := newBuilder(t, tensor.Float64, 1), newBuilder(t, tensor.Float64, 1)
	x, y := d.in("x", 2), other.in("y", 2)
	sum := d.must(gorgonia.Sum(x))
	machine := newMachine(t, openCPU(t), d.g, vm.Options{})
	v := vector(1, 2)
	let(t, x, v)
	let(t, y, v)
	mustRun(t, machine)
	other.g.UnbindAll()
	var missing *vm.ValueError
	if err := machine.RunAll(); !errors.As(err, &missing) || !slices.Equal(missing.Nodes, []string{"x"}) {
		t.Errorf("got %v, want a ValueError about x", err)
	}
	let(t, x, vector(3, 4))
	mustRun(t, machine)
	wantValue(t, "sum", sum.Value(), 7)
}
