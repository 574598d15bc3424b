package vm_test

import (
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestDropoutDropsUnlessEvalIsSet(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, eval := range []bool{false, true} {
			d := newBuilder(t, tensor.Float64, 1)
			x := d.in("x", 400)
			y := d.must(gorgonia.Dropout(d.must(gorgonia.Square(x)), 0.5))
			machine := newMachine(t, dev, d.g, vm.Options{Eval: eval})
			let(t, x, tensor.New(tensor.WithShape(400), tensor.WithBacking(slices.Repeat([]float64{1}, 400))))
			for range 2 {
				mustRun(t, machine)
				got := elements(y.Value())
				dropped := 0
				for _, v := range got {
					if v == 0 {
						dropped++
					}
				}
				if eval && dropped > 0 || !eval && (dropped < 100 || dropped > 300) { // ten standard deviations
					t.Errorf("eval %v: %d of 400 are dropped", eval, dropped)
				}
			}
		}
	})
}

func TestEachRunDrawsNewMasks(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		masks := func(seed uint64) (seen [][]float64) {
			d := newBuilder(t, tensor.Float64, 1)
			x := d.in("x", 400)
			y := d.must(gorgonia.Dropout(x, 0.2))
			machine := newMachine(t, dev, d.g, vm.Options{Seed: seed})
			let(t, x, tensor.New(tensor.WithShape(400), tensor.WithBacking(slices.Repeat([]float64{1}, 400))))
			for range 3 {
				mustRun(t, machine)
				seen = append(seen, slices.Clone(elements(y.Value())))
			}
			return seen
		}
		a := masks(1)
		for i := range a {
			for j := range i {
				if slices.Equal(a[i], a[j]) {
					t.Errorf("runs %d and %d drop the same", j, i)
				}
			}
		}
		for i, again := range masks(1) {
			if !slices.Equal(a[i], again) {
				t.Errorf("run %d drops otherwise the second time", i)
			}
		}
		if slices.Equal(masks(2)[0], a[0]) {
			t.Error("another seed drops the same")
		}
	})
}
