package vm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// twoLosses has two losses over shared weights:
//
//	h = tanh x·w    first = mean h²    second = mean (h·u - y)² + Σ w²
type twoLosses struct {
	*builder
	x, y, w, u, h, first, second *gorgonia.Node
}

func newTwoLosses(t testing.TB, seed uint64) *twoLosses {
	d := newBuilder(t, tensor.Float64, seed)
	l := &twoLosses{builder: d, x: d.param("x", 4, 3), y: d.param("y", 4, 2), w: d.param("w", 3, 5), u: d.param("u", 5, 2)}
	l.h = d.must(gorgonia.Tanh(d.must(gorgonia.Mul(l.x, l.w))))
	l.first = d.must(gorgonia.Mean(d.must(gorgonia.Square(l.h))))
	diff := d.must(gorgonia.Sub(d.must(gorgonia.Mul(l.h, l.u)), l.y))
	l.second = d.must(gorgonia.Add(d.must(gorgonia.Mean(d.must(gorgonia.Square(diff)))), d.must(gorgonia.Sum(d.must(gorgonia.Square(l.w))))))
	return l
}

func (l *twoLosses) grad(loss *gorgonia.Node, by ...*gorgonia.Node) gorgonia.Nodes {
	l.t.Helper()
	grads, err := gorgonia.Grad(loss, by...)
	if err != nil {
		l.t.Fatal(err)
	}
	return grads
}

// alone returns the gradients of one of the losses, in a graph that has no other.
func (l *twoLosses) alone(dev kernels.Device, pick func(l *twoLosses) *gorgonia.Node, by ...func(l *twoLosses) *gorgonia.Node) (grads [][]float64) {
	l.t.Helper()
	c := newTwoLosses(l.t, l.seed)
	var nodes gorgonia.Nodes
	for _, f := range by {
		nodes = append(nodes, f(c))
	}
	c.grad(pick(c), nodes...)
	mustRun(l.t, newMachine(l.t, dev, c.g, vm.Options{}))
	for _, n := range nodes {
		grads = append(grads, elements(gradOf(l.t, n)))
	}
	return grads
}

func first(l *twoLosses) *gorgonia.Node  { return l.first }
func second(l *twoLosses) *gorgonia.Node { return l.second }
func weight(l *twoLosses) *gorgonia.Node { return l.w }
func upper(l *twoLosses) *gorgonia.Node  { return l.u }

// sameAs compares a gradient with that of a graph of its own. The order of a sum may differ.
func sameAs(t testing.TB, what string, n *gorgonia.Node, want []float64) {
	t.Helper()
	if got := elements(gradOf(t, n)); !allNear(got, want, 1e-13) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A weight of two losses has the gradient of the first one that gorgonia.Grad was called for, as on a
// tape machine; a machine of the subgraph of one loss has the gradients of that loss.
func TestEachLossHasGradientsOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, sum := range []bool{false, true} {
			for _, secondFirst := range []bool{false, true} {
				l := newTwoLosses(t, random(t).Uint64())
				want1 := l.alone(dev, first, weight)
				want2 := l.alone(dev, second, weight, upper)
				shared := want1[0]
				if secondFirst {
					l.grad(l.second, l.w, l.u)
					l.grad(l.first, l.w)
					shared = want2[0]
				} else {
					l.grad(l.first, l.w)
					l.grad(l.second, l.w, l.u)
				}
				var opt vm.Options
				if sum {
					opt.Bind = gorgonia.Nodes{}
				}
				run := func(g *gorgonia.ExprGraph) *vm.Machine {
					for _, n := range []*gorgonia.Node{l.w, l.u} {
						if v, _ := n.Grad(); sum && v != nil {
							v.(*tensor.Dense).Zero()
						}
					}
					machine := newMachine(t, dev, g, opt)
					mustRun(t, machine)
					return machine
				}
				what := fmt.Sprintf("sums %v, second first %v: ", sum, secondFirst)
				whole := run(l.g)
				sameAs(t, what+"whole graph, w", l.w, shared)
				sameAs(t, what+"whole graph, u", l.u, want2[1])
				if sum {
					mustRun(t, whole)
					sameAs(t, what+"two runs, u", l.u, twice(want2[1]))
				}
				for name, sub := range map[string]func(ns ...*gorgonia.Node) *gorgonia.ExprGraph{"SubgraphRoots": l.g.SubgraphRoots, "ExactSubgraphRoots": l.g.ExactSubgraphRoots} {
					run(sub(l.first))
					sameAs(t, what+name+" of the first loss, w", l.w, want1[0])
					run(sub(l.second))
					sameAs(t, what+name+" of the second loss, w", l.w, want2[0])
					sameAs(t, what+name+" of the second loss, u", l.u, want2[1])
				}
			}
		}
	})
}

func twice(x []float64) []float64 {
	x = slices.Clone(x)
	for i := range x {
		x[i] *= 2
	}
	return x
}

// With Bind, the machine of one loss leaves the gradients of others alone: they may hold a sum.
func TestAMachineOfOneLossAddsOnlyToTheGradientsThatItBinds(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		l := newTwoLosses(t, random(t).Uint64())
		want := l.alone(dev, first, weight)
		l.grad(l.first, l.w)
		l.grad(l.second, l.u)
		machines := []*vm.Machine{
			newMachine(t, dev, l.g.SubgraphRoots(l.first), vm.Options{Bind: gorgonia.Nodes{l.w}}),
			newMachine(t, dev, l.g.SubgraphRoots(l.second), vm.Options{Bind: gorgonia.Nodes{l.u}}),
		}
		for i := range 4 {
			mustRun(t, machines[i%2])
		}
		sameAs(t, "w", l.w, twice(want[0]))
		sameAs(t, "u", l.u, twice(l.alone(dev, second, upper)[0]))
	})
}

// Gorgonia's node lacks the terms of all readers of w but one.
func TestANodeThatALaterGradReturnedHasTheGradientOfItsLoss(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		w := d.in("w", 2)
		let(t, w, vector(1, 2))
		cube := d.must(gorgonia.Cube(w))
		one := d.must(gorgonia.Sum(d.must(gorgonia.Exp(w))))
		two := d.must(gorgonia.Sum(d.must(gorgonia.Add(cube, d.must(gorgonia.Square(w))))))
		var grads gorgonia.Nodes
		for _, loss := range []*gorgonia.Node{one, two} {
			g, err := gorgonia.Grad(loss, w)
			if err != nil {
				t.Fatal(err)
			}
			grads = append(grads, g[0])
		}
		var read gorgonia.Value
		gorgonia.Read(grads[1], &read)
		machine := newMachine(t, dev, d.g, vm.Options{})
		mustRun(t, machine)
		wantValue(t, "gradient of the second loss", read, 3+2, 12+4)
		v, err := machine.ValueOf(grads[1])
		if err != nil {
			t.Fatal(err)
		}
		wantValue(t, "gradient of the second loss on demand", v, 3+2, 12+4)
		if got, want := elements(gradOf(t, w)), []float64{math.E, math.E * math.E}; !allNear(got, want, 1e-15) {
			t.Errorf("gradient of w: got %v, want that of the first loss, %v", got, want)
		}
	})
}

// The generator and the discriminator are two losses in one graph. Each half is trained by a machine
// of its own loss.
func TestAGANOfTwoLossesTrainsLikeTwoGraphs(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		seed := random(t).Uint64()
		gan := func() (d *builder, wg, wd, lossG, lossD *gorgonia.Node) {
			d = newBuilder(t, tensor.Float64, seed)
			z, real := d.param("z", 6, 2), d.param("real", 6, 3)
			wg, wd = d.param("wg", 2, 3), d.param("wd", 3, 1)
			score := func(x *gorgonia.Node) *gorgonia.Node { return d.must(gorgonia.Sigmoid(d.must(gorgonia.Mul(x, wd)))) }
			fake := score(d.must(gorgonia.Tanh(d.must(gorgonia.Mul(z, wg)))))
			lossG = d.must(gorgonia.Neg(d.must(gorgonia.Mean(d.must(gorgonia.Log(fake))))))
			truth := d.must(gorgonia.Mean(d.must(gorgonia.Log(score(real)))))
			lossD = d.must(gorgonia.Sub(d.must(gorgonia.Mean(d.must(gorgonia.Square(fake)))), truth))
			return d, wg, wd, lossG, lossD
		}
		steps := func(wg, wd *gorgonia.Node, machineG, machineD gorgonia.VM) (seen []float64) {
			solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.1))
			for range 5 {
				for i, w := range []*gorgonia.Node{wd, wg} {
					mustRun(t, []gorgonia.VM{machineD, machineG}[i])
					if err := solver.Step(gorgonia.NodesToValueGrads(gorgonia.Nodes{w})); err != nil {
						t.Fatal(err)
					}
				}
				seen = slices.Concat(seen, elements(wg.Value()), elements(wd.Value()))
			}
			return seen
		}
		d, wg, wd, lossG, lossD := gan()
		for _, l := range []struct{ loss, by *gorgonia.Node }{{lossG, wg}, {lossD, wd}} {
			if _, err := gorgonia.Grad(l.loss, l.by); err != nil {
				t.Fatal(err)
			}
		}
		opt := func(w *gorgonia.Node) vm.Options { return vm.Options{Bind: gorgonia.Nodes{w}} }
		got := steps(wg, wd, newMachine(t, dev, d.g.SubgraphRoots(lossG), opt(wg)), newMachine(t, dev, d.g.SubgraphRoots(lossD), opt(wd)))

		dG, wgG, wdG, lossGG, _ := gan()
		dD, wgD, wdD, _, lossDD := gan()
		for _, l := range []struct{ loss, by *gorgonia.Node }{{lossGG, wgG}, {lossDD, wdD}} {
			if _, err := gorgonia.Grad(l.loss, l.by); err != nil {
				t.Fatal(err)
			}
		}
		machineG, machineD := newMachine(t, dev, dG.g, opt(wgG)), newMachine(t, dev, dD.g, opt(wdD))
		let(t, wgD, wgG.Value()) // each graph reads the weights that the other one trains
		let(t, wdG, wdD.Value())
		if want := steps(wgG, wdD, machineG, machineD); !allNear(got, want, 1e-12) { // float64, sums in another order
			t.Errorf("got %v, two graphs have %v", got, want)
		}
	})
}

// autoencoders are two layers, each of which learns to restore its input from its output. A machine
// trains each layer by its own cost, one layer after the other.
type autoencoders struct {
	*builder
	x       *gorgonia.Node
	weights [2]gorgonia.Nodes
	outputs [2]gorgonia.Nodes // gradients, then the cost
}

func newAutoencoders(t testing.TB, seed uint64) *autoencoders {
	a := &autoencoders{builder: newBuilder(t, tensor.Float64, seed)}
	a.x = a.in("x", 5, 6)
	in := a.x
	for i, size := range []int{4, 3} {
		wide := in.Shape()[1]
		code, decode := a.param(fmt.Sprintf("code%d", i), wide, size), a.param(fmt.Sprintf("decode%d", i), size, wide)
		hidden := a.must(gorgonia.Sigmoid(a.must(gorgonia.Mul(in, code))))
		restored := a.must(gorgonia.Tanh(a.must(gorgonia.Mul(hidden, decode))))
		cost := a.must(gorgonia.Mean(a.must(gorgonia.Square(a.must(gorgonia.Sub(restored, in))))))
		grads, err := gorgonia.Grad(cost, code, decode)
		if err != nil {
			t.Fatal(err)
		}
		a.weights[i], a.outputs[i] = gorgonia.Nodes{code, decode}, append(grads, cost)
		in = hidden
	}
	return a
}

// train returns costs and weights after each of 20 steps, first of one layer, then of the other.
func (a *autoencoders) train(machineOf func(outputs gorgonia.Nodes) gorgonia.VM) (seen [][]float64) {
	data := rand.New(rand.NewPCG(a.seed, 2))
	solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.5))
	var machines []gorgonia.VM
	for _, outputs := range a.outputs {
		machines = append(machines, machineOf(outputs))
	}
	for step := range 20 {
		layer := step / 10
		let(a.t, a.x, randomTensor(data, a.dt, 5, 6))
		mustRun(a.t, machines[layer])
		if err := solver.Step(gorgonia.NodesToValueGrads(a.weights[layer])); err != nil {
			a.t.Fatal(err)
		}
		machines[layer].Reset()
		now := elements(a.outputs[layer][2].Value())
		for _, w := range append(slices.Clone(a.weights[0]), a.weights[1]...) {
			now = append(now, elements(w.Value())...)
		}
		seen = append(seen, now)
	}
	return seen
}

func TestLayersThatAreTrainedOneByOneLearnAsWithCompiledFunctions(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		seed := random(t).Uint64()
		ref := newAutoencoders(t, seed)
		want := ref.train(func(outputs gorgonia.Nodes) gorgonia.VM {
			prog, locations, err := gorgonia.CompileFunction(ref.g, gorgonia.Nodes{ref.x}, outputs)
			if err != nil {
				t.Fatal(err)
			}
			tape := gorgonia.NewTapeMachine(ref.g, gorgonia.WithPrecompiled(prog, locations))
			t.Cleanup(func() { tape.Close() })
			return tape
		})
		a := newAutoencoders(t, seed)
		got := a.train(func(outputs gorgonia.Nodes) gorgonia.VM {
			return newMachine(t, dev, a.g.ExactSubgraphRoots(outputs...), vm.Options{})
		})
		for i := range want {
			if !allNear(got[i], want[i], 1e-11) { // float64: rounding that adds up over 20 steps
				t.Fatalf("step %d: got %v, the tape machines have %v", i, got[i], want[i])
			}
		}
	})
}
