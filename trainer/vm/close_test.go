package vm_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestValuesOutliveTheMachineInTheSameTensors(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newBuilder(t, tensor.Float32, random(t).Uint64()))
		machine, err := vm.New(m.g, vm.Options{Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1))
		observe(m, machine, solver, 2, 3)
		held, want := make([]gorgonia.Value, 0), make([][]float64, 0)
		for _, w := range m.weights {
			for _, v := range []gorgonia.Value{w.Value(), gradOf(t, w)} {
				held, want = append(held, v), append(want, elements(v))
			}
		}
		for range 2 {
			if err := machine.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i, v := range held {
			if got := elements(v); !slices.Equal(got, want[i]) {
				t.Errorf("tensor %d: got %v, want %v", i, got, want[i])
			}
		}
		if held[0] != m.weights[0].Value() {
			t.Error("the weight has another tensor")
		}
		var buf bytes.Buffer
		back := new(tensor.Dense)
		if err := errors.Join(gob.NewEncoder(&buf).Encode(held[0]), gob.NewDecoder(&buf).Decode(back)); err != nil || !slices.Equal(elements(back), want[0]) {
			t.Errorf("gob: got %v %v, want %v", back, err, want[0])
		}
		if err := machine.RunAll(); !errors.Is(err, arena.ErrClosed) {
			t.Errorf("run after Close: got %v, want arena.ErrClosed", err)
		}
		tape := gorgonia.NewTapeMachine(m.g)
		defer tape.Close()
		mustRun(t, tape)
	})
}

func TestADeviceThatIsClosedUnderAMachineEndsItsRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newBuilder(t, tensor.Float64, 1))
		machine, err := vm.New(m.g, vm.Options{Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range m.data {
			let(t, n, randomTensor(m.r, m.dt, n.Shape()...))
		}
		mustRun(t, machine)
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

// Freed memory may still hold the old elements, so the test compares addresses.
func TestCloseMovesEveryTensorOutOfTheArena(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if !dev.Unified() {
			t.Skipf("needs a device whose memory tensors share: %s has its own", dev.Name())
		}
		d := newBuilder(t, tensor.Float64, 1)
		x, y := d.param("x", 3), d.param("y", 3)
		kept := d.must(gorgonia.HadamardProd(x, y))
		if _, err := gorgonia.Grad(d.must(gorgonia.Sum(kept)), x, y); err != nil {
			t.Fatal(err)
		}
		machine := newMachine(t, dev, d.g, vm.Options{Bind: gorgonia.Nodes{x}, Keep: gorgonia.Nodes{kept}})
		mustRun(t, machine)
		rows, err := gradOf(t, y).(*tensor.Dense).Slice(nil)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]gorgonia.Value{"x": x.Value(), "gradient of x": gradOf(t, x), "Deriv of x": x.Deriv().Value(),
			"gradient of y": gradOf(t, y), "kept": kept.Value(), "a slice of y's gradient that is bound to y": rows}
		let(t, y, rows)
		before := make(map[string]uintptr)
		for name, v := range values {
			before[name] = v.Uintptr()
		}
		if err := machine.Close(); err != nil {
			t.Fatal(err)
		}
		for name, v := range values {
			if v.Uintptr() == before[name] {
				t.Errorf("%s lies in the arena after Close", name)
			}
		}
	})
}
