package vm_test

import (
	"errors"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestInputsMayBeViewsOfAnyStridesAndRewrittenBetweenRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.in("x", 3, 2)
		y := d.must(gorgonia.Neg(x))
		machine := newMachine(t, dev, d.g, vm.Options{})
		backing := []float64{1, 2, 3, 4, 5, 6, 7, 8}
		turned := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(backing[:6]))
		if err := turned.T(); err != nil {
			t.Fatal(err)
		}
		let(t, x, turned)
		mustRun(t, machine)
		wantValue(t, "transposed", y.Value(), -1, -4, -2, -5, -3, -6)
		backing[3] = 40
		mustRun(t, machine)
		wantValue(t, "rewritten", y.Value(), -1, -40, -2, -5, -3, -6)
		wide := tensor.New(tensor.WithShape(4, 2), tensor.WithBacking(backing))
		rows, err := wide.Slice(gorgonia.S(1, 4))
		if err != nil {
			t.Fatal(err)
		}
		let(t, x, rows)
		mustRun(t, machine)
		wantValue(t, "rows", y.Value(), -3, -40, -5, -6, -7, -8)
		columns := tensor.New(tensor.WithShape(3, 3), tensor.WithBacking([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}))
		cut, err := columns.Slice(nil, gorgonia.S(0, 2))
		if err != nil {
			t.Fatal(err)
		}
		let(t, x, cut)
		mustRun(t, machine)
		wantValue(t, "columns", y.Value(), -1, -2, -4, -5, -7, -8)
	})
}

func TestAnInputWithoutAValueIsNamedAndNothingRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, y := d.in("x", 2), d.in("y", 2)
		sum := d.must(gorgonia.Add(x, y))
		machine := newMachine(t, dev, d.g, vm.Options{})
		let(t, x, vector(1, 2))
		err := machine.RunAll()
		var missing *vm.ValueError
		if !errors.As(err, &missing) || !slices.Equal(missing.Nodes, []string{"y"}) || !errors.Is(err, vm.ErrData) {
			t.Fatalf("got %v, want a ValueError about y", err)
		}
		if sum.Value() != nil {
			t.Errorf("got %v, want no value", sum.Value())
		}
		let(t, y, vector(1, 1))
		mustRun(t, machine)
		wantValue(t, "sum", sum.Value(), 2, 3)
	})
}

func TestInputsOfOneNameAreDifferentInputs(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, y := d.in("x", 2), gorgonia.NewMatrix(d.g, d.dt, gorgonia.WithShape(1, 2), gorgonia.WithName("x"))
		a, b := d.must(gorgonia.Neg(x)), d.must(gorgonia.Square(y))
		machine := newMachine(t, dev, d.g, vm.Options{})
		let(t, x, vector(1, 2))
		let(t, y, tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float64{3, 4})))
		mustRun(t, machine)
		wantValue(t, "-x", a.Value(), -1, -2)
		wantValue(t, "x²", b.Value(), 9, 16)
	})
}

func TestAWeightMayBeTransposedWhereItLies(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		w := d.in("w", 2, 2)
		let(t, w, tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{1, 2, 3, 4})))
		y := d.must(gorgonia.Neg(w))
		if _, err := gorgonia.Grad(d.must(gorgonia.Sum(y)), w); err != nil {
			t.Fatal(err)
		}
		machine := newMachine(t, dev, d.g, vm.Options{Keep: gorgonia.Nodes{y}})
		if err := w.Value().(*tensor.Dense).T(); err != nil {
			t.Fatal(err)
		}
		mustRun(t, machine)
		wantValue(t, "-w", y.Value(), -1, -3, -2, -4)
	})
}
