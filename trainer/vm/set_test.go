package vm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

func TestEachRunEndsWithTheAssignmentsOfTheGraph(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		w, a, b, s := d.in("w", 2), d.in("a", 2), d.in("b", 2), gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("s"))
		before := d.in("before", 2) // nothing reads it
		two := gorgonia.NewConstant(2.0)
		gorgonia.Set(w, d.must(gorgonia.Mul(w, two)))
		gorgonia.Set(before, w)
		gorgonia.Set(a, b)
		gorgonia.Set(b, a)
		gorgonia.Set(s, d.must(gorgonia.Add(s, two)))
		sum := d.must(gorgonia.Sum(d.must(gorgonia.Add(w, d.must(gorgonia.Add(a, s))))))
		mine := vector(1, 2)
		let(t, w, mine)
		let(t, a, vector(10, 20))
		let(t, b, vector(30, 40))
		let(t, s, 5.0)
		machine := newMachine(t, dev, d.g, vm.Options{})
		for i := range 3 {
			k := float64(int(1) << i)
			mustRun(t, machine)
			wantValue(t, "w", w.Value(), 2*k, 4*k)
			wantValue(t, "w before", before.Value(), k, 2*k)
			wantValue(t, "s", s.Value(), 7+2*float64(i))
			wantValue(t, "a", a.Value(), [][]float64{{30, 40}, {10, 20}}[i%2]...)
			wantValue(t, "sum", sum.Value(), 3*k+[]float64{30, 70}[i%2]+2*(5+2*float64(i)))
		}
		wantValue(t, "the program's own tensor", mine, 1, 2)
		let(t, w, mine)
		mustRun(t, machine)
		wantValue(t, "w after Let", w.Value(), 2, 4)
		wantValue(t, "the program's own tensor after Let", mine, 1, 2)
		if err := machine.Close(); err != nil {
			t.Fatal(err)
		}
		wantValue(t, "w after Close", w.Value(), 2, 4)
	})
}

// The update of a weight by its gradient is a node of the graph.
func TestAGraphThatAssignsItsUpdatesTrains(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, bind := range []bool{false, true} {
			d := newBuilder(t, tensor.Float64, 1)
			w := d.in("w", 2)
			let(t, w, vector(3, -1))
			grads, err := gorgonia.Grad(d.must(gorgonia.Sum(d.must(gorgonia.Square(w)))), w)
			if err != nil {
				t.Fatal(err)
			}
			gorgonia.Set(w, d.must(gorgonia.Sub(w, d.must(gorgonia.Mul(grads[0], gorgonia.NewConstant(0.25))))))
			opt := vm.Options{}
			if bind {
				opt.Bind = gorgonia.Nodes{w}
			}
			machine := newMachine(t, dev, d.g, opt)
			for range 2 {
				mustRun(t, machine)
			}
			wantValue(t, "w", w.Value(), 0.75, -0.25)
		}
	})
}

func TestWhatCannotBeAssignedIsRefusedByName(t *testing.T) {
	dev := openCPU(t)
	for name, c := range map[string]struct {
		set  func(d *builder, x *gorgonia.Node)
		want error
	}{
		"a computed node": {func(d *builder, x *gorgonia.Node) {
			y := d.must(gorgonia.Neg(x))
			gorgonia.WithName("culprit")(y)
			gorgonia.Set(y, x)
		}, kernels.ErrUnsupported},
		"another shape": {func(d *builder, x *gorgonia.Node) {
			y := d.in("culprit", 3)
			d.must(gorgonia.Neg(y))
			gorgonia.Set(y, x)
		}, kernels.ErrShape},
	} {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.param("x", 2)
		d.must(gorgonia.Exp(x))
		c.set(d, x)
		if _, err := vm.New(d.g, vm.Options{Device: dev}); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "culprit") {
			t.Errorf("%s: got %v, want %v that names the node", name, err, c.want)
		}
	}
}

func TestLetAndSetAreThoseOfTheTapeMachine(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		type machine interface {
			gorgonia.VM
			Let(n *gorgonia.Node, value any) error
			Set(a, b *gorgonia.Node) error
		}
		train := func(newMachine func(d *builder) machine) (seen [][]float64) {
			d := newBuilder(t, tensor.Float64, 1)
			x, w, b := d.in("x", 2), d.in("w", 2), gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("b"))
			cost := d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.Add(d.must(gorgonia.HadamardProd(x, w)), b))))))
			grads, err := gorgonia.Grad(cost, w, b)
			if err != nil {
				t.Fatal(err)
			}
			rate := gorgonia.NewConstant(0.125)
			newW := d.must(gorgonia.Sub(w, d.must(gorgonia.Mul(rate, grads[0]))))
			newB := d.must(gorgonia.Sub(b, d.must(gorgonia.Mul(rate, grads[1]))))
			m := newMachine(d)
			if err := errors.Join(m.Let(w, vector(1, 2)), m.Let(b, 0.5)); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				m.Reset()
				if err := m.Let(x, vector(1, float64(i))); err != nil {
					t.Fatal(err)
				}
				mustRun(t, m)
				if err := errors.Join(m.Set(w, newW), m.Set(b, newB)); err != nil {
					t.Fatal(err)
				}
				seen = append(seen, slices.Concat(elements(w.Value()), elements(b.Value()), elements(cost.Value())))
			}
			return seen
		}
		want := train(func(d *builder) machine {
			tape := gorgonia.NewTapeMachine(d.g)
			t.Cleanup(func() { tape.Close() })
			return tape
		})
		got := train(func(d *builder) machine { return newMachine(t, dev, d.g, vm.Options{}) })
		for i := range want {
			if !allNear(got[i], want[i], 1e-12) { // float64, sums in another order
				t.Errorf("step %d: got %v, the tape machine has %v", i, got[i], want[i])
			}
		}
	})
}

func TestLetAndSetRefuseNodesThatAreNotTheirs(t *testing.T) {
	dev := openCPU(t)
	d, other := newBuilder(t, tensor.Float64, 1), newBuilder(t, tensor.Float64, 1)
	x, y, wide := d.param("x", 2), other.param("y", 2), d.param("wide", 3)
	sum := d.must(gorgonia.Sum(d.must(gorgonia.Exp(x))))
	d.must(gorgonia.Neg(wide))
	machine := newMachine(t, dev, d.g, vm.Options{})
	for what, err := range map[string]error{
		"let a node of another graph":     machine.Let(y, vector(1, 2)),
		"let a computed node":             machine.Let(sum, 1.0),
		"let a value of another shape":    machine.Let(x, vector(1, 2, 3)),
		"let nil":                         machine.Let(nil, 1.0),
		"set to a node of another graph":  machine.Set(x, y),
		"set a computed node":             machine.Set(sum, x),
		"set to a value of another shape": machine.Set(x, wide),
	} {
		if !errors.Is(err, vm.ErrData) {
			t.Errorf("%s: got %v, want ErrData", what, err)
		}
	}
	if err := machine.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := machine.ValueOf(x)
	for _, m := range []*vm.Machine{machine, nil, new(vm.Machine)} {
		for _, err := range []error{err, m.Let(x, vector(1, 2)), m.Set(x, x)} {
			if !errors.Is(err, arena.ErrClosed) {
				t.Errorf("got %v, want arena.ErrClosed", err)
			}
		}
		_, err = m.ValueOf(x)
	}
}

// A tape machine executes the new range.
func TestARangeThatUnsafeLetChangesIsRefusedByName(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.in("x", 4)
		let(t, x, vector(1, 2, 3, 4))
		part := d.must(gorgonia.Slice(x, gorgonia.S(0, 2)))
		gorgonia.WithName("part")(part)
		root := d.must(gorgonia.Neg(part))
		machine := newMachine(t, dev, d.g, vm.Options{})
		mustRun(t, machine)
		if err := gorgonia.UnsafeLet(part, gorgonia.S(1, 3)); err != nil {
			t.Fatal(err)
		}
		if err := machine.RunAll(); !errors.Is(err, vm.ErrModel) || !strings.Contains(err.Error(), "part") {
			t.Errorf("got %v, want ErrModel about part", err)
		}
		mustRun(t, newMachine(t, dev, d.g, vm.Options{}))
		wantValue(t, "root of a new machine", root.Value(), -2, -3)
	})
}
