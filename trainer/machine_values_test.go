package trainer_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
)

func vector(x ...float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(x)), tensor.WithBacking(x))
}

func runs(t testing.TB, vm gorgonia.VM) {
	t.Helper()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
}

func holds(t testing.TB, what string, v gorgonia.Value, want ...float64) {
	t.Helper()
	if v == nil {
		t.Fatalf("%s: no value, want %v", what, want)
	}
	if got := elements(v); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func gradOf(t testing.TB, n *gorgonia.Node) gorgonia.Value {
	t.Helper()
	v, err := n.Grad()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAfterARunRootsReadsAndKeptNodesHaveValues(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x := d.in("x", 2)
		inner := d.must(gorgonia.Square(x))
		kept := d.must(gorgonia.Neg(inner))
		root := d.must(gorgonia.Add(kept, x))
		less := d.must(gorgonia.Lt(x, inner, false))
		var read, readRoot, readInput gorgonia.Value
		gorgonia.Read(inner, &read)
		gorgonia.Read(root, &readRoot)
		gorgonia.Read(x, &readInput)
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{Keep: gorgonia.Nodes{kept}})
		var first gorgonia.Value
		for i, v := range []float64{1, 3} {
			letBe(t, x, vector(v, 2))
			runs(t, vm)
			holds(t, "root", root.Value(), v-v*v, -2)
			holds(t, "kept", kept.Value(), -v*v, -4)
			holds(t, "read", read, v*v, 4)
			holds(t, "read root", readRoot, v-v*v, -2)
			holds(t, "read input", readInput, v, 2)
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
		if err := vm.Close(); err != nil {
			t.Fatal(err)
		}
		holds(t, "read after Close", held, 9, 4)
	})
}

func TestInputsMayBeViewsOfAnyStridesAndRewrittenBetweenRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x := d.in("x", 3, 2)
		y := d.must(gorgonia.Neg(x))
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{})
		backing := []float64{1, 2, 3, 4, 5, 6, 7, 8}
		turned := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(backing[:6]))
		if err := turned.T(); err != nil {
			t.Fatal(err)
		}
		letBe(t, x, turned)
		runs(t, vm)
		holds(t, "transposed", y.Value(), -1, -4, -2, -5, -3, -6)
		backing[3] = 40
		runs(t, vm)
		holds(t, "rewritten", y.Value(), -1, -40, -2, -5, -3, -6)
		wide := tensor.New(tensor.WithShape(4, 2), tensor.WithBacking(backing))
		rows, err := wide.Slice(gorgonia.S(1, 4))
		if err != nil {
			t.Fatal(err)
		}
		letBe(t, x, rows)
		runs(t, vm)
		holds(t, "rows", y.Value(), -3, -40, -5, -6, -7, -8)
		columns := tensor.New(tensor.WithShape(3, 3), tensor.WithBacking([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}))
		cut, err := columns.Slice(nil, gorgonia.S(0, 2))
		if err != nil {
			t.Fatal(err)
		}
		letBe(t, x, cut)
		runs(t, vm)
		holds(t, "columns", y.Value(), -1, -2, -4, -5, -7, -8)
	})
}

func TestAnInputWithoutAValueIsNamedAndNothingRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x, y := d.in("x", 2), d.in("y", 2)
		sum := d.must(gorgonia.Add(x, y))
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{})
		letBe(t, x, vector(1, 2))
		err := vm.RunAll()
		var missing *trainer.ValueError
		if !errors.As(err, &missing) || !slices.Equal(missing.Nodes, []string{"y"}) || !errors.Is(err, trainer.ErrData) {
			t.Fatalf("got %v, want a ValueError about y", err)
		}
		if sum.Value() != nil {
			t.Errorf("got %v, want no value", sum.Value())
		}
		letBe(t, y, vector(1, 1))
		runs(t, vm)
		holds(t, "sum", sum.Value(), 2, 3)
	})
}

// line is a·x + c with scalars that are fitted.
func line(d *sketch) *netGraph {
	a, c := gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("a")), gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("c"))
	letBe(d.t, a, 0.5)
	letBe(d.t, c, 0.25)
	m := &netGraph{sketch: d, data: gorgonia.Nodes{d.in("x", 6), d.in("y", 6)}, weights: gorgonia.Nodes{a, c}}
	out := d.must(gorgonia.Add(d.must(gorgonia.HadamardProd(m.data[0], a)), c))
	gorgonia.Read(out, &m.read)
	m.loss = d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(out, m.data[1]))))))
	return m.grad()
}

func TestScalarsAreInputsOutputsAndFittedAsOnATapeMachine(t *testing.T) {
	for _, bind := range []bool{false, true} {
		t.Run(fmt.Sprintf("bind %v", bind), func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				seed := random(t).Uint64()
				ref, m := line(newSketch(t, tensor.Float64, seed)), line(newSketch(t, tensor.Float64, seed))
				var opts []gorgonia.VMOpt
				opt := trainer.MachineOptions{}
				if bind {
					opts, opt.Bind = append(opts, gorgonia.BindDualValues(ref.weights...)), m.weights
				}
				tape := gorgonia.NewTapeMachine(ref.g, opts...)
				defer tape.Close()
				solver := func() gorgonia.Solver { return gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1)) }
				want := watch(ref, tape, solver(), 6, 2)
				got := watch(m, newMachine(t, dev, m.g, opt), solver(), 6, 2)
				compareSights(t, got, want, 1e-12)
			})
		})
	}
}

// In x + y both inputs share one gradient node. A tape machine's solver zeroes it after the first, so that the second does not move.
func TestInputsThatShareAGradientNodeHaveGradientsOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, bind := range []bool{false, true} {
			d := newSketch(t, tensor.Float64, 1)
			x, y := d.in("x", 2), d.in("y", 2)
			letBe(t, x, vector(1, 2))
			letBe(t, y, vector(3, 4))
			loss := d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.Add(x, y))))))
			m := &netGraph{sketch: d, loss: loss, weights: gorgonia.Nodes{x, y}}
			m.grad()
			opt := trainer.MachineOptions{}
			if bind {
				opt.Bind = m.weights
			}
			runs(t, newMachine(t, dev, d.g, opt))
			holds(t, "gradient of x", gradOf(t, x), 8, 12)
			holds(t, "gradient of y", gradOf(t, y), 8, 12)
			if err := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.5)).Step(gorgonia.NodesToValueGrads(m.weights)); err != nil {
				t.Fatal(err)
			}
			holds(t, "x", x.Value(), -3, -4)
			holds(t, "y", y.Value(), -1, -2)
		}
	})
}

func TestGradientsAddUpOnlyWhereBoundAndDerivIsTheSameValue(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x, y := d.in("x", 2), d.in("y", 2)
		letBe(t, x, vector(1, 2))
		letBe(t, y, vector(3, 4))
		loss := d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(d.must(gorgonia.Square(x)), y))))
		m := &netGraph{sketch: d, loss: loss, weights: gorgonia.Nodes{x, y}}
		m.grad()
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{Bind: gorgonia.Nodes{x}})
		for i := range 3 {
			runs(t, vm)
			k := float64(i + 1)
			holds(t, "gradient of x", gradOf(t, x), 6*k, 16*k)
			holds(t, "gradient of y", gradOf(t, y), 1, 4)
			holds(t, "Deriv of y", y.Deriv().Value(), 1, 4)
		}
		gradOf(t, x).(*tensor.Dense).Zero()
		runs(t, vm)
		holds(t, "gradient of x set to zero", gradOf(t, x), 6, 16)
		if err := vm.Close(); err != nil {
			t.Fatal(err)
		}
		holds(t, "gradient of x after Close", gradOf(t, x), 6, 16)
		holds(t, "gradient of y after Close", gradOf(t, y), 1, 4)
	})
}

// The gradient of a row is a product whose summand looks like the bias of a matmul.
func TestGradientsOfARowThatAProductMakesAddUp(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x, w := d.in("x", 2, 1), d.in("w", 1, 3)
		letBe(t, x, tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float64{1, 2})))
		letBe(t, w, tensor.New(tensor.WithShape(1, 3), tensor.WithBacking([]float64{1, 2, 3})))
		m := &netGraph{sketch: d, loss: d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.Mul(x, w)))))), weights: gorgonia.Nodes{w}}
		m.grad()
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{Bind: m.weights})
		for k := 1.0; k <= 3; k++ {
			runs(t, vm)
			holds(t, "gradient", gradOf(t, w), 10*k, 20*k, 30*k)
		}
	})
}

func TestDropoutDropsUnlessEvalIsSet(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, eval := range []bool{false, true} {
			d := newSketch(t, tensor.Float64, 1)
			x := d.in("x", 400)
			y := d.must(gorgonia.Dropout(d.must(gorgonia.Square(x)), 0.5))
			vm := newMachine(t, dev, d.g, trainer.MachineOptions{Eval: eval})
			letBe(t, x, tensor.New(tensor.WithShape(400), tensor.WithBacking(slices.Repeat([]float64{1}, 400))))
			for range 2 {
				runs(t, vm)
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

func TestProgramsCanComputeWithAndReadGradients(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x := d.in("x", 2)
		letBe(t, x, vector(1, 2))
		loss := d.must(gorgonia.Sum(d.must(gorgonia.Square(x))))
		grads, err := gorgonia.Grad(loss, x)
		if err != nil {
			t.Fatal(err)
		}
		var read gorgonia.Value
		gorgonia.Read(grads[0], &read)
		norm := d.must(gorgonia.Sum(d.must(gorgonia.Square(grads[0]))))
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{Bind: gorgonia.Nodes{x}})
		for i := range 2 {
			runs(t, vm)
			holds(t, "read gradient", read, 2, 4)
			holds(t, "squared norm", norm.Value(), 20)
			holds(t, "sum of gradients", gradOf(t, x), 2*float64(i+1), 4*float64(i+1))
		}
		holds(t, "loss", loss.Value(), 5)
	})
}

func TestValuesOutliveTheMachineInTheSameTensors(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newSketch(t, tensor.Float32, random(t).Uint64()))
		vm, err := trainer.NewMachine(m.g, trainer.MachineOptions{Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1))
		watch(m, vm, solver, 2, 3)
		held, want := make([]gorgonia.Value, 0), make([][]float64, 0)
		for _, w := range m.weights {
			for _, v := range []gorgonia.Value{w.Value(), gradOf(t, w)} {
				held, want = append(held, v), append(want, elements(v))
			}
		}
		for range 2 {
			if err := vm.Close(); err != nil {
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
		if err := vm.RunAll(); !errors.Is(err, arena.ErrClosed) {
			t.Errorf("run after Close: got %v, want arena.ErrClosed", err)
		}
		tape := gorgonia.NewTapeMachine(m.g)
		defer tape.Close()
		runs(t, tape)
	})
}

func TestUnbindAllTakesNoParametersAway(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newSketch(t, tensor.Float64, random(t).Uint64()))
		vm := newMachine(t, dev, m.g, trainer.MachineOptions{Bind: m.weights[:1]})
		solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1))
		data := []*tensor.Dense{randomTensor(m.r, m.dt, 8, 5), randomTensor(m.r, m.dt, 8, 3)}
		letBe(t, m.data[0], data[0].Clone())
		letBe(t, m.data[1], data[1].Clone())
		runs(t, vm)
		if err := solver.Step(gorgonia.NodesToValueGrads(m.weights)); err != nil {
			t.Fatal(err)
		}
		runs(t, vm)
		want := elements(m.loss.Value())
		grad := elements(gradOf(t, m.weights[1]))
		m.g.UnbindAll()
		if err := vm.RunAll(); !errors.Is(err, trainer.ErrData) {
			t.Fatalf("got %v, want an error about the data, which are gone", err)
		}
		// What UnbindAll blanked is used again by others.
		for range 40 {
			tensor.New(tensor.Of(m.dt), tensor.WithShape(5, 7))
		}
		letBe(t, m.data[0], data[0])
		letBe(t, m.data[1], data[1])
		runs(t, vm)
		holds(t, "loss", m.loss.Value(), want...)
		holds(t, "gradient", gradOf(t, m.weights[1]), grad...)
	})
}

func TestMachinesOfOneGraphSeeEachOthersWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		seed := random(t).Uint64()
		one, m := perceptron(newSketch(t, tensor.Float64, seed)), perceptron(newSketch(t, tensor.Float64, seed))
		solver := func() gorgonia.Solver { return gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.05)) }
		vm := newMachine(t, dev, one.g, trainer.MachineOptions{})
		want := watch(one, vm, solver(), 9, 1)
		turns := &turn{vms: []*trainer.Machine{newMachine(t, dev, m.g, trainer.MachineOptions{}), newMachine(t, dev, m.g, trainer.MachineOptions{Eval: true}),
			newMachine(t, dev, m.g, trainer.MachineOptions{})}}
		compareSights(t, watch(m, turns, solver(), 9, 1), want, 0)
		if err := turns.vms[2].Close(); err != nil { // the weights lay in its arena
			t.Fatal(err)
		}
		runs(t, turns.vms[0])
		if !allNear(elements(m.loss.Value()), want[len(want)-8].values, 1) || math.IsNaN(elements(m.loss.Value())[0]) {
			t.Errorf("loss after Close of another machine: %v", m.loss.Value())
		}
	})
}

// turn runs several machines in turn.
type turn struct {
	vms []*trainer.Machine
	n   int
}

func (t *turn) RunAll() error { t.n++; return t.vms[t.n%len(t.vms)].RunAll() }
func (t *turn) Reset()        {}
func (t *turn) Close() error  { return nil }

func TestThePlanIsTheArenaAndOneByteLessIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := perceptron(newSketch(t, tensor.Float64, random(t).Uint64()))
		vm := newMachine(t, dev, m.g, trainer.MachineOptions{})
		need := vm.Plan().Total
		if got := vm.Stats().Reserved; got != need {
			t.Errorf("arena of %d bytes, the plan says %d", got, need)
		}
		watch(m, newMachine(t, dev, m.g, trainer.MachineOptions{Memory: need}), gorgonia.NewVanillaSolver(), 2, 1)
		_, err := trainer.NewMachine(m.g, trainer.MachineOptions{Device: dev, Memory: need - 1})
		var short *trainer.CapacityError
		if !errors.Is(err, arena.ErrCapacity) || !errors.As(err, &short) || short.Need != need || short.Have != need-1 {
			t.Errorf("one byte less: got %v", err)
		}
	})
}

func TestRunsAllocateNothingAndBytesStayTheSame(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, bind := range []bool{false, true} {
			m := perceptron(newSketch(t, tensor.Float32, random(t).Uint64()))
			opt := trainer.MachineOptions{}
			if bind {
				opt.Bind = m.weights
			}
			vm := newMachine(t, dev, m.g, opt)
			for _, n := range m.data {
				letBe(t, n, randomTensor(m.r, m.dt, n.Shape()...))
			}
			runs(t, vm)
			before := vm.Stats()
			if n := testing.AllocsPerRun(100, func() {
				if err := vm.RunAll(); err != nil {
					t.Fatal(err)
				}
			}); n != 0 && dev.Name() != "emu" { // which keeps accounts of what it runs
				t.Errorf("bind %v: %v allocations a run, want 0", bind, n)
			}
			if after := vm.Stats(); after.InUse != before.InUse {
				t.Errorf("bind %v: %d bytes in use after 100 runs, %d before", bind, after.InUse, before.InUse)
			}
		}
	})
}

func TestValuesThatAreNotFiniteAreNoErrors(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x := d.in("x", 2)
		y := d.must(gorgonia.Log(x))
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{})
		letBe(t, x, vector(-1, 0))
		runs(t, vm)
		if got := elements(y.Value()); !math.IsNaN(got[0]) || !math.IsInf(got[1], -1) {
			t.Errorf("got %v, want NaN and -Inf", got)
		}
	})
}

func TestWhatAMachineCannotDoIsSaidWhenItIsMade(t *testing.T) {
	dev := openCPU(t)
	for _, c := range []struct {
		name string
		make func(d *sketch) (*gorgonia.ExprGraph, trainer.MachineOptions)
		want []string
	}{
		{"two losses", func(d *sketch) (*gorgonia.ExprGraph, trainer.MachineOptions) {
			for _, name := range []string{"x", "y"} {
				x := d.param(name, 3)
				if _, err := gorgonia.Grad(d.must(gorgonia.Sum(d.must(gorgonia.Exp(x)))), x); err != nil {
					d.t.Fatal(err)
				}
			}
			return d.g, trainer.MachineOptions{Device: dev}
		}, []string{"each for itself", "sum"}},
		{"bind without a gradient", func(d *sketch) (*gorgonia.ExprGraph, trainer.MachineOptions) {
			x := d.param("lonely", 3)
			d.must(gorgonia.Exp(x))
			return d.g, trainer.MachineOptions{Device: dev, Bind: gorgonia.Nodes{x}}
		}, []string{"lonely", "gorgonia.Grad"}},
		{"no device", func(d *sketch) (*gorgonia.ExprGraph, trainer.MachineOptions) { return d.g, trainer.MachineOptions{} }, []string{"cpu.Open"}},
		{"no graph", func(d *sketch) (*gorgonia.ExprGraph, trainer.MachineOptions) {
			return nil, trainer.MachineOptions{Device: dev}
		}, []string{"no graph"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, opt := c.make(newSketch(t, tensor.Float64, 1))
			vm, err := trainer.NewMachine(g, opt)
			if err == nil {
				vm.Close()
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

func TestInputsOfOneNameAreDifferentInputs(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newSketch(t, tensor.Float64, 1)
		x, y := d.in("x", 2), gorgonia.NewMatrix(d.g, d.dt, gorgonia.WithShape(1, 2), gorgonia.WithName("x"))
		a, b := d.must(gorgonia.Neg(x)), d.must(gorgonia.Square(y))
		vm := newMachine(t, dev, d.g, trainer.MachineOptions{})
		letBe(t, x, vector(1, 2))
		letBe(t, y, tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float64{3, 4})))
		runs(t, vm)
		holds(t, "-x", a.Value(), -1, -2)
		holds(t, "x²", b.Value(), 9, 16)
	})
}

func ExampleNewMachine() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(4), gorgonia.WithName("x"))
	y := gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(4), gorgonia.WithName("y"))
	w := gorgonia.NewScalar(g, gorgonia.Float64, gorgonia.WithName("w"), gorgonia.WithValue(0.0))
	loss := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Sub(gorgonia.Must(gorgonia.Mul(x, w)), y))))))
	if _, err := gorgonia.Grad(loss, w); err != nil {
		panic(err)
	}
	device := cpu.Open()
	defer device.Close()
	vm, err := trainer.NewMachine(g, trainer.MachineOptions{Device: device}) // in place of gorgonia.NewTapeMachine(g)
	if err != nil {
		panic(err)
	}
	defer vm.Close()
	gorgonia.Let(x, vector(1, 2, 3, 4))
	gorgonia.Let(y, vector(3, 6, 9, 12))
	solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.05))
	for range 20 {
		if err := vm.RunAll(); err != nil {
			panic(err)
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(gorgonia.Nodes{w})); err != nil {
			panic(err)
		}
	}
	fmt.Printf("w = %.3f\n", w.Value().Data())
	// Output: w = 3.000
}
