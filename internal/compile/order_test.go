package compile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// shuffled is any order that the dependencies allow.
func shuffled(seed uint64) scheduler {
	return scheduler{"shuffled", func(s *schedule, from []int32) []int32 {
		r := rand.New(rand.NewPCG(seed, 3))
		from = slices.Clone(from)
		r.Shuffle(len(from), func(a, b int) { from[a], from[b] = from[b], from[a] })
		return list(from, s.before, s.after, false, func(int32) int64 { return 0 }, func(int32, func(int32)) {})
	}}
}

// The order of instructions changes nothing but the peak: dependencies are all in the schedule. There is no tolerance.
func TestEachOrderKeepsTheBitsOfRandomGraphs(t *testing.T) {
	dev := openCPU(t)
	optimizers := optim.All()
	graphs := uint64(40)
	if testing.Short() {
		graphs = 15
	}
	for s := range graphs {
		s += *seed * 1000
		g, loss := randomGraph(s, []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2], false)
		o := optimizers[g.r.IntN(len(optimizers))].Optimizer
		cfg := g.config(dev, loss)
		cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.r.IntN(3))})
		cfg.Update.Lean = s%3 == 0
		want, p := g.steps(t, dev, cfg, o, 2)
		for _, sch := range append(slices.Clone(schedulers), shuffled(s), shuffled(s+1)) {
			cfg.scheduler = &sch
			got, q := g.steps(t, dev, cfg, o, 2)
			if name := got.differs(want); name != "" {
				t.Fatalf("seed %d, %v: order %q: %s is not what it is in the best order: %x, %x\n%v\n%v", s, g.grown, sch.name, name,
					got[name], want[name], listing(q), listing(p))
			}
		}
	}
}

// graphOf returns a net of package nets and how its training step is compiled for a device without workspaces.
func graphOf(t testing.TB, n nets.Net, lean bool) (*gorgonia.ExprGraph, Config) {
	t.Helper()
	g := gorgonia.NewGraph()
	m, err := n.Model(g, n.Batch)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Model: frontend.Model{Batch: n.Batch, Loss: m.Loss, Output: m.Output, Correct: m.Correct, Inputs: make(map[*gorgonia.Node]frontend.Input), Params: make(map[*gorgonia.Node]bool), Statistics: make(map[*gorgonia.Node]bool)}, Mode: Train, Homes: &ir.Homes{}, Update: updateOf(optim.Adam{}, optim.Clip{})}
	cfg.Update.Lean = lean
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

// TestOrdersOfNetsLowerThePeak prints the bytes that live in each order; the compiler's must be the lowest, and the same each time.
func TestOrdersOfNetsLowerThePeak(t *testing.T) {
	for _, lean := range []bool{false, true} {
		for _, n := range nets.All() {
			compiled := func(off Pass, sch *scheduler) *ir.Program {
				g, cfg := graphOf(t, n, lean)
				cfg.Off, cfg.scheduler = off, sch
				return compileFor(t, g, cfg)
			}
			made, best := compiled(Order, nil).Plan.Live, compiled(0, nil)
			t.Logf("%s, lean %v: as made %d, best %d, %.1f %% less", n.Name, lean, made, best.Plan.Live, 100-100*float64(best.Plan.Live)/float64(made))
			if !slices.Equal(compiled(0, nil).Order, best.Order) {
				t.Errorf("%s: the order is another one the second time", n.Name)
			}
			for _, sch := range schedulers {
				live := compiled(Slices, &sch).Plan.Live
				if t.Logf("\t%s: %d", sch.name, live); compiled(Slices, nil).Plan.Live > live {
					t.Errorf("%s: order %q has %d bytes live, fewer than the best", n.Name, sch.name, live)
				}
			}
			if best.Plan.Live > made {
				t.Errorf("%s: %d bytes live, as made %d", n.Name, best.Plan.Live, made)
			}
		}
	}
}

// A dense layer's update may run as soon as its gradient is there: then of a deep net's gradients few live at once.
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

// A schedule's order is complete, and nothing comes before what it waits for.
func TestOrdersRespectWhatInstructionsWaitFor(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 4))
	for range 200 {
		s := randomSchedule(r)
		n := len(s.makes)
		for _, sch := range append(slices.Clone(schedulers), shuffled(r.Uint64())) {
			order := sch.order(s, sequence(n))
			at := make([]int, n)
			for i := range at {
				at[i] = -1
			}
			for k, i := range order {
				for _, b := range s.before[i] {
					if at[b] < 0 {
						t.Fatalf("seed %d, order %q: %d comes before %d, for which it waits", *seed, sch.name, i, b)
					}
				}
				at[i] = k
			}
			if slices.Contains(at, -1) || len(order) != n {
				t.Fatalf("seed %d, order %q: got %v of %d instructions", *seed, sch.name, order, n)
			}
		}
	}
}

// randomSchedule makes instructions that each make a value and read some before.
func randomSchedule(r *rand.Rand) *schedule {
	n := 1 + r.IntN(40)
	s := &schedule{before: make([][]int32, n), after: make([][]int32, n), reads: make([][]kernels.Value, n), makes: make([]int64, n),
		readers: make([][]int32, n), bytes: make([]int64, n)}
	for i := range n {
		s.makes[i] = 256 * int64(r.IntN(9))
		s.bytes[i] = s.makes[i]
		for j := range i {
			if r.IntN(1+i) > 2 {
				continue
			}
			s.before[i], s.after[j] = append(s.before[i], int32(j)), append(s.after[j], int32(i))
			if r.IntN(4) > 0 {
				s.reads[i], s.readers[j] = append(s.reads[i], kernels.Value(j)), append(s.readers[j], int32(i))
			}
		}
	}
	return s
}
