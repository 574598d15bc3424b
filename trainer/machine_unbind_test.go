package trainer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// columnSums is the gradient of Σ x·w by w, for x of 2 x 3 and w of 3 x 4: the sum of x's columns, in each column of w.
func columnSums(x []float64) []float64 {
	var g []float64
	for k := range 3 {
		sum := x[k] + x[3+k]
		g = append(g, sum, sum, sum, sum)
	}
	return g
}

// Nodes that are made with a value share its shape, which UnbindAll sets to zeros.
func TestUnbindAllLeavesAMachineWholeWhoseNodesWereMadeWithValues(t *testing.T) {
	for _, bind := range []bool{false, true} {
		t.Run(fmt.Sprintf("bind %v", bind), func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				d := newSketch(t, tensor.Float64, random(t).Uint64())
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
				opt := trainer.MachineOptions{}
				if bind {
					opt.Bind = gorgonia.Nodes{w}
				}
				vm := newMachine(t, dev, d.g, opt)
				runs(t, vm)
				for i := range 12 {
					d.g.UnbindAll()
					var missing *trainer.ValueError
					if err := vm.RunAll(); !errors.As(err, &missing) || !slices.Equal(missing.Nodes, []string{"x"}) && i < 6 {
						t.Fatalf("round %d: got %v, want a ValueError about x", i, err)
					}
					xv := xMatrix()
					xs := slices.Clone(xv.Float64s())
					var others []*tensor.Dense // of the program: they use what UnbindAll blanked
					for range i {
						others = append(others, randomTensor(d.r, d.dt, 5, 7))
					}
					letBe(t, x, xv)
					if i >= 6 {
						wv := wMatrix()
						w0 = slices.Clone(wv.Float64s())
						letBe(t, w, wv)
					}
					runs(t, vm)
					holds(t, fmt.Sprintf("round %d: gradient", i), gradOf(t, w), columnSums(xs)...)
					holds(t, fmt.Sprintf("round %d: x", i), x.Value(), xs...)
					holds(t, fmt.Sprintf("round %d: w", i), w.Value(), w0...)
					holds(t, fmt.Sprintf("round %d: read", i), read, w0...)
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
	d, other := newSketch(t, tensor.Float64, 1), newSketch(t, tensor.Float64, 1)
	x, y := d.in("x", 2), other.in("y", 2)
	sum := d.must(gorgonia.Sum(x))
	vm := newMachine(t, openCPU(t), d.g, trainer.MachineOptions{})
	v := vector(1, 2)
	letBe(t, x, v)
	letBe(t, y, v)
	runs(t, vm)
	other.g.UnbindAll()
	var missing *trainer.ValueError
	if err := vm.RunAll(); !errors.As(err, &missing) || !slices.Equal(missing.Nodes, []string{"x"}) {
		t.Errorf("got %v, want a ValueError about x", err)
	}
	letBe(t, x, vector(3, 4))
	runs(t, vm)
	holds(t, "sum", sum.Value(), 7)
}

func TestAMachineThatWasNotMadeAnswersWithErrors(t *testing.T) {
	for name, vm := range map[string]*trainer.Machine{"nil": nil, "zero": new(trainer.Machine)} {
		if err := vm.RunAll(); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%s: RunAll: got %v, want ErrOption", name, err)
		}
		vm.Reset()
		if vm.Plan() != nil {
			t.Errorf("%s: it has a plan", name)
		}
		if s := vm.Stats(); s.InUse != 0 {
			t.Errorf("%s: got %+v, want zeros", name, s)
		}
		if err := vm.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
	vm := new(trainer.Machine)
	if err := errors.Join(vm.Close(), vm.Close()); err != nil {
		t.Error(err)
	}
	if err := vm.RunAll(); !errors.Is(err, arena.ErrClosed) {
		t.Errorf("RunAll after Close: got %v, want arena.ErrClosed", err)
	}
}

func TestNewMachineSaysThatAGraphIsEmpty(t *testing.T) {
	g := gorgonia.NewGraph()
	_, err := trainer.NewMachine(g, trainer.MachineOptions{Device: openCPU(t), Bind: gorgonia.Nodes{nil}})
	if want := "new machine: the graph is empty: build the model before the machine: bad model"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if !errors.Is(err, trainer.ErrModel) {
		t.Errorf("got %v, want ErrModel", err)
	}
}
