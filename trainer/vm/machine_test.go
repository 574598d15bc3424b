package vm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// observation is one value that a program sees after a step.
type observation struct {
	what   string
	values []float64
}

// observe runs a model on a machine for some steps, each with a new batch. The solver updates the weights after step every,
// 2·every and so on. It returns all that a program can see.
func observe(m *testModel, machine gorgonia.VM, solver gorgonia.Solver, steps, every int) (seen []observation) {
	m.t.Helper()
	note := func(i int, what string, v gorgonia.Value) {
		seen = append(seen, observation{fmt.Sprintf("%s of step %d", what, i), elements(v)})
	}
	data := rand.New(rand.NewPCG(m.seed, 2))
	for i := range steps {
		for _, n := range m.data {
			let(m.t, n, randomTensor(data, m.dt, n.Shape()...))
		}
		if err := machine.RunAll(); err != nil {
			m.t.Fatalf("step %d: %v", i, err)
		}
		note(i, "loss", m.loss.Value())
		note(i, "prediction", m.read)
		for _, w := range m.weights {
			g, err := w.Grad()
			if err != nil {
				m.t.Fatal(err)
			}
			note(i, "gradient of "+w.Name(), g)
		}
		if (i+1)%every == 0 {
			if err := solver.Step(gorgonia.NodesToValueGrads(m.weights)); err != nil {
				m.t.Fatal(err)
			}
		}
		for _, w := range m.weights {
			note(i, w.Name(), w.Value())
		}
		machine.Reset()
	}
	return seen
}

// compareObservations compares what a machine and a tape machine showed.
func compareObservations(t *testing.T, got, want []observation, tol float64) {
	t.Helper()
	for i, w := range want {
		if !allNear(got[i].values, w.values, tol) {
			t.Fatalf("%s: got %v, the tape machine has %v", w.what, got[i].values, w.values)
		}
	}
}

// Losses, predictions, gradients and weights of every step are those of the tape machine. The tolerances are the rounding
// errors that add up over the steps.
func TestAMachineTrainsLikeATapeMachine(t *testing.T) {
	solvers := []struct {
		name string
		make func() gorgonia.Solver
	}{
		{"vanilla", func() gorgonia.Solver { return gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.05)) }},
		{"adam", func() gorgonia.Solver { return gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.01)) }},
		{"rmsprop", func() gorgonia.Solver { return gorgonia.NewRMSPropSolver(gorgonia.WithLearnRate(0.01)) }},
	}
	for _, c := range []struct {
		name   string
		model  func(*builder) *testModel
		dt     tensor.Dtype
		solver int
		bind   bool
		steps  int
		every  int // steps between those of the solver
		tol    float64
	}{
		{"perceptron, float64", perceptron, tensor.Float64, 1, false, 20, 1, 1e-10},
		{"perceptron, float64, bound", perceptron, tensor.Float64, 1, true, 20, 1, 1e-10},
		{"perceptron, float64, gradients of three runs", perceptron, tensor.Float64, 0, true, 20, 3, 1e-10},
		{"perceptron, float32", perceptron, tensor.Float32, 0, false, 20, 1, 1e-4},
		{"perceptron, float32, bound", perceptron, tensor.Float32, 0, true, 20, 1, 1e-4},
		// These solvers divide a gradient by its size + 1e-8: they scale up the rounding error of one that is almost zero.
		{"recurrent", recurrent, tensor.Float64, 2, false, 20, 1, 1e-7},
		{"recurrent, bound", recurrent, tensor.Float64, 1, true, 20, 2, 1e-7},
		{"convolution", convolution, tensor.Float64, 0, false, 4, 1, 1e-10},
		{"layers", ofLayers, tensor.Float64, 0, false, 4, 1, 1e-10},
		{"layers, float32, bound", ofLayers, tensor.Float32, 0, true, 4, 1, 1e-3},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := random(t).Uint64()
			ref := c.model(newBuilder(t, c.dt, seed))
			var opts []gorgonia.VMOpt
			if c.bind {
				opts = append(opts, gorgonia.BindDualValues(ref.weights...))
			}
			tape := gorgonia.NewTapeMachine(ref.g, opts...)
			defer tape.Close()
			want := observe(ref, tape, solvers[c.solver].make(), c.steps, c.every)
			for _, d := range targets {
				t.Run(d.name, func(t *testing.T) {
					m := c.model(newBuilder(t, c.dt, seed))
					opt := vm.Options{}
					if c.bind {
						opt.Bind = m.weights
					}
					machine := newMachine(t, d.open(t), m.g, opt)
					compareObservations(t, observe(m, machine, solvers[c.solver].make(), c.steps, c.every), want, c.tol)
				})
			}
		})
	}
}

func TestScalarsAreInputsOutputsAndFittedAsOnATapeMachine(t *testing.T) {
	for _, bind := range []bool{false, true} {
		t.Run(fmt.Sprintf("bind %v", bind), func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				seed := random(t).Uint64()
				ref, m := linear(newBuilder(t, tensor.Float64, seed)), linear(newBuilder(t, tensor.Float64, seed))
				var opts []gorgonia.VMOpt
				opt := vm.Options{}
				if bind {
					opts, opt.Bind = append(opts, gorgonia.BindDualValues(ref.weights...)), m.weights
				}
				tape := gorgonia.NewTapeMachine(ref.g, opts...)
				defer tape.Close()
				solver := func() gorgonia.Solver { return gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1)) }
				want := observe(ref, tape, solver(), 6, 2)
				got := observe(m, newMachine(t, dev, m.g, opt), solver(), 6, 2)
				compareObservations(t, got, want, 1e-12)
			})
		})
	}
}

func TestMachinesOfOneGraphSeeEachOthersWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		seed := random(t).Uint64()
		one, m := perceptron(newBuilder(t, tensor.Float64, seed)), perceptron(newBuilder(t, tensor.Float64, seed))
		solver := func() gorgonia.Solver { return gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.05)) }
		machine := newMachine(t, dev, one.g, vm.Options{})
		want := observe(one, machine, solver(), 9, 1)
		turns := &roundRobin{machines: []*vm.Machine{newMachine(t, dev, m.g, vm.Options{}), newMachine(t, dev, m.g, vm.Options{Eval: true}),
			newMachine(t, dev, m.g, vm.Options{})}}
		compareObservations(t, observe(m, turns, solver(), 9, 1), want, 0)
		if err := turns.machines[2].Close(); err != nil { // the weights lay in its arena
			t.Fatal(err)
		}
		mustRun(t, turns.machines[0])
		if !allNear(elements(m.loss.Value()), want[len(want)-8].values, 1) || math.IsNaN(elements(m.loss.Value())[0]) {
			t.Errorf("loss after Close of another machine: %v", m.loss.Value())
		}
	})
}

// roundRobin runs several machines in turn.
type roundRobin struct {
	machines []*vm.Machine
	n        int
}

func (r *roundRobin) RunAll() error { r.n++; return r.machines[r.n%len(r.machines)].RunAll() }
func (r *roundRobin) Reset()        {}
func (r *roundRobin) Close() error  { return nil }
