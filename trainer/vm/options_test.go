package vm_test

import (
	"errors"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestNewReportsWhatAMachineCannotRun(t *testing.T) {
	dev := openCPU(t)
	for _, c := range []struct {
		name string
		make func(d *builder) (*gorgonia.ExprGraph, vm.Options)
		want []string
	}{
		{"a gradient of a gradient", func(d *builder) (*gorgonia.ExprGraph, vm.Options) {
			x, y := d.param("x", 3), d.param("y", 3)
			grads, err := gorgonia.Grad(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(d.must(gorgonia.Exp(x)), y)))), x)
			if err != nil {
				d.t.Fatal(err)
			}
			norm := d.must(gorgonia.Sum(d.must(gorgonia.Square(grads[0]))))
			gorgonia.WithName("norm")(norm)
			if _, err := gorgonia.Grad(norm, y); err != nil {
				d.t.Fatal(err)
			}
			return d.g, vm.Options{Device: dev}
		}, []string{"norm", "gradients of gradients"}},
		{"a gradient of a gradient of vm.Grad", func(d *builder) (*gorgonia.ExprGraph, vm.Options) {
			x := d.param("x", 3)
			norm := d.must(gorgonia.Sum(d.must(gorgonia.Square(mustGrad(d.t, d.must(gorgonia.Sum(d.must(gorgonia.Exp(x)))), x)[0]))))
			gorgonia.WithName("norm")(norm)
			mustGrad(d.t, norm, x)
			return d.g, vm.Options{Device: dev}
		}, []string{`"norm" is computed from gradients`}},
		{"bind of a computed node with a gradient", func(d *builder) (*gorgonia.ExprGraph, vm.Options) {
			x := d.param("x", 3)
			y := d.must(gorgonia.Exp(x))
			if _, err := gorgonia.Grad(d.must(gorgonia.Sum(y)), x); err != nil {
				d.t.Fatal(err)
			}
			return d.g, vm.Options{Device: dev, Bind: gorgonia.Nodes{y}}
		}, []string{"inputs", "Keep"}},
		{"no device", func(d *builder) (*gorgonia.ExprGraph, vm.Options) { return d.g, vm.Options{} }, []string{"cpu.Open"}},
		{"a layer with an error", func(d *builder) (*gorgonia.ExprGraph, vm.Options) {
			layers.New(d.g).Reshape(d.param("x", 3), "pairs", 2, -1)
			return d.g, vm.Options{Device: dev}
		}, []string{`reshape "pairs"`, "(2, -1)"}},
		{"no graph", func(d *builder) (*gorgonia.ExprGraph, vm.Options) {
			return nil, vm.Options{Device: dev}
		}, []string{"no graph"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, opt := c.make(newBuilder(t, tensor.Float64, 1))
			machine, err := vm.New(g, opt)
			if err == nil {
				machine.Close()
				t.Fatal("got a machine, want an error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want %q in it", err, w)
				}
			}
		})
	}
}

func TestAMachineThatNewDidNotMakeReturnsErrors(t *testing.T) {
	for name, machine := range map[string]*vm.Machine{"nil": nil, "zero": new(vm.Machine)} {
		if err := machine.RunAll(); !errors.Is(err, arena.ErrClosed) {
			t.Errorf("%s: RunAll: got %v, want arena.ErrClosed", name, err)
		}
		machine.Reset()
		if machine.Plan() != nil {
			t.Errorf("%s: it has a plan", name)
		}
		if s := machine.Stats(); s.InUse != 0 {
			t.Errorf("%s: got %+v, want zeros", name, s)
		}
		if err := machine.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
	machine := new(vm.Machine)
	if err := errors.Join(machine.Close(), machine.Close()); err != nil {
		t.Error(err)
	}
	if err := machine.RunAll(); !errors.Is(err, arena.ErrClosed) {
		t.Errorf("RunAll after Close: got %v, want arena.ErrClosed", err)
	}
}

func TestNewReportsAnEmptyGraph(t *testing.T) {
	g := gorgonia.NewGraph()
	_, err := vm.New(g, vm.Options{Device: openCPU(t), Bind: gorgonia.Nodes{nil}})
	if want := "new machine: the graph is empty: build the model before the machine: bad model"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if !errors.Is(err, vm.ErrModel) {
		t.Errorf("got %v, want ErrModel", err)
	}
}

func TestADeviceThatWasNotOpenedIsRefused(t *testing.T) {
	for _, d := range targets {
		for name, dev := range map[string]kernels.Device{"nil": d.absent, "zero": d.zero} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				m := perceptron(newBuilder(t, tensor.Float64, 1))
				if _, err := vm.New(m.g, vm.Options{Device: dev}); !errors.Is(err, arena.ErrClosed) {
					t.Errorf("got %v, want arena.ErrClosed", err)
				}
			})
		}
	}
}
