package vm_test

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/vm"
)

// classic is a program as one writes it for a tape machine: a differentiated graph, and a loop that
// feeds batches, runs a machine, and has Gorgonia's solver update the weights.
type classic struct {
	*builder
	parts []part             // trained one after the other
	feed  func(r *rand.Rand) // binds the next batch
	carry func()             // takes state from a run to the next one, if not nil
}

// part is what one machine trains.
type part struct {
	graph   *gorgonia.ExprGraph // nil: the whole graph
	losses  gorgonia.Nodes
	weights gorgonia.Nodes
}

// whole makes a program that trains all of a graph.
func (d *builder) whole(feed func(r *rand.Rand), loss *gorgonia.Node, weights ...*gorgonia.Node) *classic {
	d.t.Helper()
	d.grad(loss, weights...)
	return &classic{builder: d, feed: feed, parts: []part{{losses: gorgonia.Nodes{loss}, weights: weights}}}
}

// grad differentiates loss. It returns the gradients.
func (d *builder) grad(loss *gorgonia.Node, weights ...*gorgonia.Node) gorgonia.Nodes {
	d.t.Helper()
	grads, err := gorgonia.Grad(loss, weights...)
	if err != nil {
		d.t.Fatal(err)
	}
	return grads
}

// classics are programs that many write first. The small ones are tested, the large ones are measured.
// Slices of long axes, average pooling, dropout and Adam are left out: see docs/from-gorgonia.md.
var classics = []struct {
	name         string
	rate         float64
	small, large func(d *builder) *classic
}{
	{"iris", 0.1,
		func(d *builder) *classic { return iris(d, 30) },
		func(d *builder) *classic { return iris(d, 150) }},
	{"logistic regression", 0.5,
		func(d *builder) *classic { return logistic(d, 20, 5) },
		func(d *builder) *classic { return logistic(d, 1000, 50) }},
	{"convnet", 0.05,
		func(d *builder) *classic { return convnet(d, 4, 8, 3) },
		func(d *builder) *classic { return convnet(d, 50, 28, 16) }},
	{"stacked autoencoder", 0.5,
		func(d *builder) *classic { return stacked(d, 10, 12, 8, 5) },
		func(d *builder) *classic { return stacked(d, 100, 784, 256, 64) }},
	{"char-RNN in parts", 0.5,
		func(d *builder) *classic { return charRNN(d, 3, 4, 8) },
		func(d *builder) *classic { return charRNN(d, 32, 25, 128) }},
	{"GAN", 0.1,
		func(d *builder) *classic { return gan(d, 12, 2, 3, 6) },
		func(d *builder) *classic { return gan(d, 64, 32, 256, 128) }},
	{"ResNet", 0.05,
		func(d *builder) *classic { return resNet(d, 4, 6, 3) },
		func(d *builder) *classic { return resNet(d, 16, 16, 16) }},
	{"tiny-YOLO", 0.05,
		func(d *builder) *classic { return tinyYOLO(d, 2, 8, 2) },
		func(d *builder) *classic { return tinyYOLO(d, 4, 32, 8) }},
}

// tapes are Gorgonia's machines of a program.
func (c *classic) tapes() (machines []gorgonia.VM) {
	for _, p := range c.parts {
		g := p.graph
		if g == nil {
			g = c.g
		}
		tape := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(p.weights...))
		c.t.Cleanup(func() { tape.Close() })
		machines = append(machines, tape)
	}
	return machines
}

// machines are Evenkeel's machines of a program.
func (c *classic) machines(open target, eval bool) (machines []gorgonia.VM) {
	dev := open.open(c.t)
	for _, p := range c.parts {
		g := p.graph
		if g == nil {
			g = c.g
		}
		machines = append(machines, newMachine(c.t, dev, g, vm.Options{Bind: p.weights, Eval: eval, Logger: slog.New(slog.DiscardHandler)}))
	}
	return machines
}

// step trains part i by one batch, which is bound already.
func (c *classic) step(i int, machine gorgonia.VM, solver gorgonia.Solver) {
	c.t.Helper()
	mustRun(c.t, machine)
	if err := solver.Step(gorgonia.NodesToValueGrads(c.parts[i].weights)); err != nil {
		c.t.Fatal(err)
	}
	if c.carry != nil {
		c.carry()
	}
	machine.Reset()
}

// classicSteps is how many steps a test takes.
const classicSteps = 20

// partOf returns the part that a step trains.
func (c *classic) partOf(step int) int { return step * len(c.parts) / classicSteps }

// train takes classicSteps steps. It returns the losses of each step, and the weights at the end.
func (c *classic) train(machines []gorgonia.VM, rate float64) (losses [][]float64, weights [][]float64) {
	c.t.Helper()
	data := rand.New(rand.NewPCG(c.seed, 2))
	solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(rate))
	for step := range classicSteps {
		i := c.partOf(step)
		c.feed(data)
		c.step(i, machines[i], solver)
		var now []float64
		for _, loss := range c.parts[i].losses {
			now = append(now, elements(loss.Value())...)
		}
		losses = append(losses, now)
	}
	for _, p := range c.parts {
		for _, w := range p.weights {
			weights = append(weights, elements(w.Value()))
		}
	}
	return losses, weights
}

// mustLearn checks that the loss of each part falls. A GAN has two losses, which contend.
func (c *classic) mustLearn(losses [][]float64) {
	c.t.Helper()
	first, last := map[int]float64{}, map[int]float64{}
	for step, l := range losses {
		i := c.partOf(step)
		if _, ok := first[i]; !ok {
			first[i] = l[0]
		}
		last[i] = l[0]
	}
	for i, p := range c.parts {
		if len(p.losses) == 1 && !(last[i] < first[i]) {
			c.t.Errorf("%v, part %d: the loss went from %v to %v", c.dt, i, first[i], last[i])
		}
	}
}

// A program runs on both machines, with one solver, and learns the same. 1e-4 are the rounding errors
// of float32 over 20 steps; those of float64 are far smaller.
func TestClassicProgramsLearnAsOnATapeMachine(t *testing.T) {
	for _, c := range classics {
		t.Run(c.name, func(t *testing.T) {
			for dt, tol := range map[tensor.Dtype]float64{tensor.Float32: 1e-4, tensor.Float64: 1e-9} {
				seed := random(t).Uint64()
				ref := c.small(newBuilder(t, dt, seed))
				want, wantWeights := ref.train(ref.tapes(), c.rate)
				ref.mustLearn(want)
				for _, d := range targets {
					t.Run(fmt.Sprint(d.name, ", ", dt), func(t *testing.T) {
						own := c.small(newBuilder(t, dt, seed))
						got, weights := own.train(own.machines(d, false), c.rate)
						for i := range want {
							if !slices.EqualFunc(got[i], want[i], func(a, b float64) bool { return math.Abs(a-b) <= tol*math.Abs(b) }) {
								t.Fatalf("step %d: losses %v, the tape machine has %v", i, got[i], want[i])
							}
						}
						for i := range wantWeights {
							if !allNear(weights[i], wantWeights[i], 10*tol) {
								t.Errorf("weight %d after 20 steps: %v, the tape machine has %v", i, weights[i], wantWeights[i])
							}
						}
					})
				}
			}
		})
	}
}

// Runs make no Go object, in training and in evaluation: no plan has a fallback, which would.
func TestRunsOfClassicProgramsAllocateNothing(t *testing.T) {
	for _, c := range classics {
		t.Run(c.name, func(t *testing.T) {
			p := c.small(newBuilder(t, tensor.Float32, random(t).Uint64()))
			p.feed(p.r)
			for _, eval := range []bool{false, true} {
				for i, machine := range p.machines(targets[0], eval) {
					if allocs := testing.AllocsPerRun(5, func() { mustRun(t, machine) }); allocs > 0 {
						t.Errorf("part %d, eval %v: %v heap objects a run", i, eval, allocs)
					}
					for _, program := range machine.(*vm.Machine).Plan().Programs {
						if len(program.Fallbacks) > 0 {
							t.Errorf("part %d, eval %v: fallbacks %q", i, eval, program.Fallbacks)
						}
					}
				}
			}
		})
	}
}

// BenchmarkClassics measures steps of the large programs on both machines, in blocks that take turns.
// The times are medians: of a run, and of a step, which is a run and the solver. Those of several parts add up.
func BenchmarkClassics(b *testing.B) {
	var runs, steps []float64
	for _, c := range classics {
		b.Run(c.name, func(b *testing.B) {
			seed := random(b).Uint64()
			tape := newStopwatch(c.large(newBuilder(b, tensor.Float32, seed)), c.rate, (*classic).tapes)
			own := newStopwatch(c.large(newBuilder(b, tensor.Float32, seed)), c.rate, func(c *classic) []gorgonia.VM { return c.machines(targets[0], false) })
			for b.Loop() {
				tape.block()
				own.block()
			}
			run, step := medians(tape.runs)/medians(own.runs), medians(tape.steps)/medians(own.steps)
			runs, steps = append(runs, run), append(steps, step)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(medians(tape.steps)/1e3, "tape-µs/step")
			b.ReportMetric(medians(own.steps)/1e3, "µs/step")
			b.ReportMetric(run, "x-run")
			b.ReportMetric(step, "x-step")
			b.ReportMetric(testing.AllocsPerRun(5, func() { mustRun(b, own.machines[0]) }), "objects/run")
		})
	}
	b.Run("geometric mean", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(geometricMean(runs), "x-run")
		b.ReportMetric(geometricMean(steps), "x-step")
	})
}

// stopwatch times blocks of steps on the machines of one program.
type stopwatch struct {
	*classic
	machines    []gorgonia.VM
	solver      gorgonia.Solver
	runs, steps [][]float64 // by part, ns
}

func newStopwatch(c *classic, rate float64, machines func(*classic) []gorgonia.VM) *stopwatch {
	c.feed(c.r)
	s := &stopwatch{classic: c, machines: machines(c), solver: gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(rate))}
	s.runs, s.steps = make([][]float64, len(c.parts)), make([][]float64, len(c.parts))
	s.block() // warm up
	clear(s.runs)
	clear(s.steps)
	return s
}

// block takes 5 steps of each part.
func (s *stopwatch) block() {
	for i, m := range s.machines {
		for range 5 {
			start := time.Now()
			timed := &timedVM{VM: m}
			s.step(i, timed, s.solver)
			s.steps[i] = append(s.steps[i], float64(time.Since(start)))
			s.runs[i] = append(s.runs[i], float64(timed.took))
		}
	}
}

// timedVM notes the time of a run.
type timedVM struct {
	gorgonia.VM
	took time.Duration
}

func (t *timedVM) RunAll() error {
	start := time.Now()
	defer func() { t.took = time.Since(start) }()
	return t.VM.RunAll()
}

// medians returns the sum over the parts of the median.
func medians(parts [][]float64) (sum float64) {
	for _, x := range parts {
		x = slices.Sorted(slices.Values(x))
		sum += x[len(x)/2]
	}
	return sum
}

func geometricMean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(x)))
}
