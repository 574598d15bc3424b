package compile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// shuffled makes a random order that the dependencies allow.
func shuffled(seed uint64) schedule.Scheduler {
	return schedule.Scheduler{Name: "shuffled", Order: func(g *schedule.Graph, from []int32) []int32 {
		r := rand.New(rand.NewPCG(seed, 3))
		from = slices.Clone(from)
		r.Shuffle(len(from), func(a, b int) { from[a], from[b] = from[b], from[a] })
		return g.Topological(from)
	}}
}

// The order of instructions changes nothing but the peak: the schedulers see all dependencies.
// There is no tolerance.
func TestEachOrderKeepsTheBitsOfRandomGraphs(t *testing.T) {
	dev := openCPU(t)
	optimizers := optim.All()
	graphs := uint64(40)
	if testing.Short() {
		graphs = 15
	}
	for s := range graphs {
		s += seed.Value() * 1000
		g, loss := randomGraph(s, []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2], false)
		o := optimizers[g.Rand.IntN(len(optimizers))].Optimizer
		cfg := g.config(dev, loss)
		cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.Rand.IntN(3))})
		cfg.Update.GuardEach = s%3 == 0
		want, p := g.steps(t, dev, cfg, o, 2)
		for _, sch := range append(schedule.Schedulers(), shuffled(s), shuffled(s+1)) {
			cfg.scheduler = &sch
			got, q := g.steps(t, dev, cfg, o, 2)
			if name := got.differs(want); name != "" {
				t.Fatalf("seed %d, %v: order %q: %s is not what it is in the best order: %x, %x\n%v\n%v", s, g.grown, sch.Name, name,
					got[name], want[name], listing(q), listing(p))
			}
		}
	}
}

// graphOf returns a net of package nets and how its training step is compiled for a device without
// workspaces.
func graphOf(t testing.TB, n nets.Net, guardEach bool) (*gorgonia.ExprGraph, Config) {
	t.Helper()
	g := gorgonia.NewGraph()
	m, err := n.Model(g, n.Batch)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Model: frontend.Model{Batch: n.Batch, Loss: m.Loss, Output: m.Output, Correct: m.Correct, Inputs: make(map[*gorgonia.Node]frontend.Input), Params: make(map[*gorgonia.Node]bool), Statistics: make(map[*gorgonia.Node]bool)}, Mode: Train, Homes: &ir.Homes{}, Update: updateOf(optim.Adam{}, optim.Clip{})}
	cfg.Update.GuardEach = guardEach
	for _, in := range m.Inputs {
		s, err := frontend.SpecOf(in)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Inputs[in] = frontend.Input{Field: in.Name(), Spec: s}
	}
	for _, p := range m.Params {
		cfg.Params[p.Node] = true
	}
	for _, p := range m.Statistics {
		cfg.Statistics[p.Node] = true
	}
	return g, cfg
}

// TestOrdersOfNetsLowerThePeak prints the peak of each order; that of the compiler must be the
// lowest, and the same each time.
func TestOrdersOfNetsLowerThePeak(t *testing.T) {
	for _, guardEach := range []bool{false, true} {
		for _, n := range nets.All() {
			compiled := func(off Pass, sch *schedule.Scheduler) *ir.Program {
				g, cfg := graphOf(t, n, guardEach)
				cfg.Off, cfg.scheduler = off, sch
				return compileFor(t, g, cfg)
			}
			made, best := compiled(Order, nil).Plan.Live, compiled(0, nil)
			t.Logf("%s, guardEach %v: as made %d, best %d, %.1f %% less", n.Name, guardEach, made, best.Plan.Live, 100-100*float64(best.Plan.Live)/float64(made))
			if !slices.Equal(compiled(0, nil).Order, best.Order) {
				t.Errorf("%s: the order is another one the second time", n.Name)
			}
			for _, sch := range schedule.Schedulers() {
				live := compiled(Slices, &sch).Plan.Live
				if t.Logf("\t%s: %d", sch.Name, live); compiled(Slices, nil).Plan.Live > live {
					t.Errorf("%s: order %q has %d bytes live, fewer than the best", n.Name, sch.Name, live)
				}
			}
			if best.Plan.Live > made {
				t.Errorf("%s: %d bytes live, as made %d", n.Name, best.Plan.Live, made)
			}
		}
	}
}

// An update under GuardEach of a dense layer can run as soon as its gradient exists: then few
// gradients of a deep net are live at once.
func TestGradientsOfADeepNetDieEarly(t *testing.T) {
	for _, n := range nets.All() {
		if n.Name != "deep mlp" {
			continue
		}
		g, cfg := graphOf(t, n, true)
		p := compileFor(t, g, cfg)
		// Activations of 63 hidden layers, the gradient of one, and slices of a weight's.
		const activation = 128 * 512 * 4
		if most := int64(63+2) * activation; p.Plan.Live > most {
			t.Errorf("%d bytes live, want at most %d: activations, and two more", p.Plan.Live, most)
		}
	}
}
