package vm_test

import (
	"math"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestAfterARunRootsReadsAndKeptNodesHaveValues(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.in("x", 2)
		inner := d.must(gorgonia.Square(x))
		kept := d.must(gorgonia.Neg(inner))
		root := d.must(gorgonia.Add(kept, x))
		less := d.must(gorgonia.Lt(x, inner, false))
		var read, readRoot, readInput gorgonia.Value
		gorgonia.Read(inner, &read)
		gorgonia.Read(root, &readRoot)
		gorgonia.Read(x, &readInput)
		machine := newMachine(t, dev, d.g, vm.Options{Keep: gorgonia.Nodes{kept}})
		var first gorgonia.Value
		for i, v := range []float64{1, 3} {
			bound := vector(v, 2)
			let(t, x, bound)
			mustRun(t, machine)
			if x.Value() != gorgonia.Value(bound) {
				t.Error("a run bound another tensor to an input that is read")
			}
			wantValue(t, "root", root.Value(), v-v*v, -2)
			wantValue(t, "kept", kept.Value(), -v*v, -4)
			wantValue(t, "read", read, v*v, 4)
			wantValue(t, "read root", readRoot, v-v*v, -2)
			wantValue(t, "read input", readInput, v, 2)
			if got := less.Value().Data().([]bool); got[0] != (v < v*v) || !got[1] {
				t.Errorf("comparison: got %v", got)
			}
			if i == 0 {
				first = root.Value()
			}
		}
		if first != root.Value() {
			t.Error("the second run bound another tensor")
		}
		held := read
		if err := machine.Close(); err != nil {
			t.Fatal(err)
		}
		wantValue(t, "read after Close", held, 9, 4)
	})
}

func TestValuesThatAreNotFiniteAreNoErrors(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.in("x", 2)
		y := d.must(gorgonia.Log(x))
		machine := newMachine(t, dev, d.g, vm.Options{})
		let(t, x, vector(-1, 0))
		mustRun(t, machine)
		if got := elements(y.Value()); !math.IsNaN(got[0]) || !math.IsInf(got[1], -1) {
			t.Errorf("got %v, want NaN and -Inf", got)
		}
	})
}
