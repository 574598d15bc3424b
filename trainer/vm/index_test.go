package vm_test

import (
	"errors"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestARunReportsABadIndexAndTheNextRunSucceeds(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		table := d.param("table", 3, 2)
		at := gorgonia.NewVector(d.g, tensor.Int, gorgonia.WithShape(4), gorgonia.WithName("at"))
		y := d.must(gorgonia.ByIndices(table, at, 0))
		gorgonia.WithName("lookup")(y)
		loss := d.must(gorgonia.Sum(y))
		if _, err := gorgonia.Grad(loss, table); err != nil {
			t.Fatal(err)
		}
		set := func(index ...int) { let(t, at, tensor.New(tensor.WithShape(4), tensor.WithBacking(index))) }
		set(0, 1, 2, 2)
		machine := newMachine(t, dev, d.g, vm.Options{})
		rows := func() float64 {
			v := elements(table.Value())
			return v[0] + v[1] + v[2] + v[3] + 2*(v[4]+v[5])
		}
		want := rows()
		for _, bad := range []int{3, -1, 1 << 40} {
			set(0, 1, bad, 2)
			var e *vm.IndexError
			if err := machine.RunAll(); !errors.As(err, &e) || !errors.Is(err, vm.ErrIndex) || e.Index != int64(bad) || e.At != 2 || e.Node != "lookup" || e.Rows != 3 {
				t.Errorf("got %v, want index %d at 2 of lookup", err, bad)
			}
			machine.Reset()
			set(0, 1, 2, 2)
			mustRun(t, machine)
			if got := elements(loss.Value())[0]; !about(got, want, 1e-12) {
				t.Errorf("after index %d: the sum is %v, want %v", bad, got, want)
			}
		}
	})
}
