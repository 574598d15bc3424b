package vm_test

import (
	"errors"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestADeviceThatIsClosedUnderAMachineEndsItsRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newSketch(t, tensor.Float64, 1))
		machine, err := vm.New(m.g, vm.Options{Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range m.data {
			letBe(t, n, randomTensor(m.r, m.dt, n.Shape()...))
		}
		runs(t, machine)
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"run": machine.RunAll(), "close": machine.Close()} {
			if !errors.Is(err, arena.ErrClosed) {
				t.Errorf("%s: %s: got %v, want arena.ErrClosed", dev.Name(), what, err)
			}
		}
	})
}

func TestADeviceThatWasNotOpenedIsRefused(t *testing.T) {
	for _, d := range targets {
		for name, dev := range map[string]kernels.Device{"nil": d.absent, "zero": d.zero} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				m := perceptron(newSketch(t, tensor.Float64, 1))
				if _, err := vm.New(m.g, vm.Options{Device: dev}); !errors.Is(err, arena.ErrClosed) {
					t.Errorf("got %v, want arena.ErrClosed", err)
				}
			})
		}
	}
}
