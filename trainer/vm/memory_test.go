package vm_test

import (
	"errors"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestThePlanIsTheArenaAndOneByteLessIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newBuilder(t, tensor.Float64, random(t).Uint64()))
		machine := newMachine(t, dev, m.g, vm.Options{})
		need := machine.Plan().Total
		if got := machine.Stats().Reserved; got != need {
			t.Errorf("arena of %d bytes, the plan says %d", got, need)
		}
		observe(m, newMachine(t, dev, m.g, vm.Options{Memory: need}), gorgonia.NewVanillaSolver(), 2, 1)
		_, err := vm.New(m.g, vm.Options{Device: dev, Memory: need - 1})
		var short *vm.CapacityError
		if !errors.Is(err, arena.ErrCapacity) || !errors.As(err, &short) || short.Need != need || short.Have != need-1 {
			t.Errorf("one byte less: got %v", err)
		}
	})
}

func TestRunsAllocateNothingAndBytesStayTheSame(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, bind := range []bool{false, true} {
			m := perceptron(newBuilder(t, tensor.Float32, random(t).Uint64()))
			opt := vm.Options{}
			if bind {
				opt.Bind = m.weights
			}
			machine := newMachine(t, dev, m.g, opt)
			for _, n := range m.data {
				let(t, n, randomTensor(m.r, m.dt, n.Shape()...))
			}
			mustRun(t, machine)
			before := machine.Stats()
			if n := testing.AllocsPerRun(100, func() {
				if err := machine.RunAll(); err != nil {
					t.Fatal(err)
				}
			}); n != 0 && dev.Name() != "emu" { // which keeps accounts of what it runs
				t.Errorf("bind %v: %v allocations a run, want 0", bind, n)
			}
			if after := machine.Stats(); after.InUse != before.InUse {
				t.Errorf("bind %v: %d bytes in use after 100 runs, %d before", bind, after.InUse, before.InUse)
			}
		}
	})
}

// A GPU moves running statistics by code of the host, with pinned memory of its own for staging.
func TestThePinnedMemoryOfAMachineIsAsPlanned(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		before := counted(t, dev)
		d := newBuilder(t, tensor.Float64, 1)
		x := gorgonia.NewTensor(d.g, d.dt, 4, gorgonia.WithShape(3, 2, 4, 4), gorgonia.WithName("x"))
		one := func(name string, init gorgonia.InitWFn) *gorgonia.Node {
			return gorgonia.NewTensor(d.g, d.dt, 4, gorgonia.WithShape(1, 2, 1, 1), gorgonia.WithName(name), gorgonia.WithInit(init))
		}
		y, _, _, _, err := gorgonia.BatchNorm(x, one("gamma", gorgonia.Ones()), one("beta", gorgonia.Zeroes()), 0.1, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		d.must(gorgonia.Sum(y))
		machine := newMachine(t, dev, d.g, vm.Options{})
		let(t, x, randomTensor(d.r, d.dt, x.Shape()...))
		for range 3 {
			mustRun(t, machine)
			after := counted(t, dev)
			if got, want := after.pinned-before.pinned, machine.Plan().Pinned; got != want || want == 0 {
				t.Errorf("%d bytes are pinned, the plan says %d", got, want)
			}
			if n, bytes := after.allocs-before.allocs, after.device-before.device; n != 1 || bytes != machine.Plan().Total {
				t.Errorf("%d blocks with %d bytes, want 1 with the plan's %d", n, bytes, machine.Plan().Total)
			}
		}
	})
}
