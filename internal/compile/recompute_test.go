package compile

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// equal is a chain of 24 equal layers.
func equal() net {
	return net{name: "24 layers", widths: append(slices.Repeat([]int{64}, 24), 10), batch: 512, act: layers.Tanh, guardEach: true}
}

// owners are the layers of p, in the order of their first instructions.
func owners(p *ir.Program) (names []string) {
	for _, in := range p.Instrs {
		if in.Owner != "" && !slices.Contains(names, in.Owner) {
			names = append(names, in.Owner)
		}
	}
	return names
}

func TestRecomputationKeepsTheBitsOfRandomGraphs(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		optimizers := optim.All()
		again, twice := 0, 0
		for s := range uint64(40) {
			s += seed.Value() * 1000
			g, loss := randomGraph(s, []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2], false)
			o := optimizers[g.Rand.IntN(len(optimizers))].Optimizer
			cfg := g.config(dev, loss)
			cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.Rand.IntN(3))})
			cfg.Update.GuardEach = s%3 == 0 && cfg.Update.ClipNorm == 0
			want, p := g.steps(t, dev, cfg, o, 2)
			goals := []Recompute{{Budget: 1}, {Budget: p.Plan.Bytes / 2}, {Budget: p.Plan.Bytes * 3 / 4}}
			have := owners(p)
			goals = append(goals, Recompute{Owners: have}, Recompute{Owners: have[:1]})
			for _, r := range goals {
				cfg.Recompute = r
				got, q := g.steps(t, dev, cfg, o, 2)
				if n := len(q.Recomputation.Rounds); n > 0 {
					again++
					if n > 1 {
						twice++
					}
				}
				if q.Plan.Bytes > p.Plan.Bytes && r.Budget > 0 {
					t.Errorf("seed %d: a limit of %d bytes: got %d, more than the %d without", s, r.Budget, q.Plan.Bytes, p.Plan.Bytes)
				}
				if name := got.differs(want); name != "" {
					t.Fatalf("seed %d, %v: recompute %+v: %s differs from the run without: %x, %x\n%v\n%v", s, g.grown, r, name, got[name], want[name], listing(q), listing(p))
				}
			}
		}
		if again < 40 {
			t.Errorf("only %d programs recomputed anything", again)
		}
		if twice == 0 {
			t.Error("no program recomputed anything twice")
		}
	})
}

// A parameter may be updated before the last reader of an activation that is recomputed from it:
// the repetition then comes before the update. The gradient of either side of a gate reads the
// other side. Each instruction in turn is scheduled as early as possible.
func TestRepetitionsReadParametersBeforeTheirUpdate(t *testing.T) {
	guardEach := updateOf(adam, optim.Clip{})
	guardEach.GuardEach = true
	again := 0
	for first := range int32(60) {
		g := gorgonia.NewGraph()
		l := layers.New(g)
		x := l.Input("x", 16, 6)
		gate := gorgonia.Must(gorgonia.HadamardProd(l.Dense(x, "left", 8, nil), l.Dense(x, "right", 8, nil)))
		m, err := l.Classifier(x, l.Dense(gate, "out", 4, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Values(seed.Value()); err != nil {
			t.Fatal(err)
		}
		sch, calls := soon(first), 0
		once := schedule.Scheduler{Name: sch.Name, Order: func(g *schedule.Graph, from []int32) []int32 { // the order that recomputation uses is the final one
			if calls++; calls > 1 {
				return from
			}
			return sch.Order(g, from)
		}}
		p := compileFor(t, g, Config{Model: frontend.Model{Batch: 16, Loss: m.Loss, Inputs: map[*gorgonia.Node]frontend.Input{
			m.Inputs[0]: {Field: "x", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{16, 6}}, Scale: 1. / 255},
			m.Inputs[1]: {Field: "y", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{16}}},
		}}, Mode: Train, Homes: &ir.Homes{}, Device: openCPU(t), Recompute: Recompute{Owners: []string{"right"}},
			scheduler: &once, Update: guardEach})
		updated := make(map[kernels.Value]string)
		for _, in := range p.Instrs {
			for _, v := range in.In {
				if by, ok := updated[v]; ok {
					t.Fatalf("instruction %d as early as can be: %q reads what %q has changed\n%v", first, in.Label, by, listing(p))
				}
			}
			for _, k := range in.Op.UpdatesFor(in.Attrs) {
				updated[in.In[k]] = in.Label
			}
			if in.Recomputed {
				again++
			}
		}
	}
	if again == 0 {
		t.Error("nothing is recomputed")
	}
}

// soon schedules instruction first as early as possible.
func soon(first int32) schedule.Scheduler {
	return schedule.Scheduler{Name: "soon", Order: func(g *schedule.Graph, from []int32) []int32 {
		var order []int32
		done := make([]bool, len(from))
		var run func(i int32)
		run = func(i int32) {
			if done[i] {
				return
			}
			done[i] = true
			for _, j := range g.Before(i) {
				run(j)
			}
			order = append(order, i)
		}
		if int(first) < len(from) {
			run(first)
		}
		for _, i := range from {
			run(i)
		}
		return order
	}}
}

func TestASmallerBatchRecomputesTheSameActivations(t *testing.T) {
	n := equal()
	homes := &ir.Homes{}
	g, cfg := n.config(t, Train, n.batch, openCPU(t), homes)
	cfg.Recompute.Budget = 14 * 512 * 64 * 4
	full := compileFor(t, g, cfg)
	if len(full.Recomputation.Rounds) == 0 {
		t.Fatal("nothing is recomputed")
	}
	g, small := n.config(t, Train, 17, openCPU(t), homes)
	small.Recompute, small.Like = cfg.Recompute, full
	p := compileFor(t, g, small)
	if p.Recomputation == nil || !reflect.DeepEqual(p.Recomputation, full.Recomputation) || len(p.Instrs) != len(full.Instrs) {
		t.Fatalf("a batch of 17: got %d instructions, want the %d of the full batch", len(p.Instrs), len(full.Instrs))
	}
	if !slices.Equal(p.Plan.Offsets, full.Plan.Offsets) {
		t.Error("a batch of 17 lies elsewhere than the full one")
	}
	// If the full batch drops nothing, neither does the smaller one, whatever its budget.
	g, cfg = n.config(t, Train, n.batch, openCPU(t), homes)
	cfg.Recompute.Budget = 1 << 40
	full = compileFor(t, g, cfg)
	g, small = n.config(t, Train, 17, openCPU(t), homes)
	small.Recompute, small.Like = Recompute{Budget: 1}, full
	if p := compileFor(t, g, small); len(full.Recomputation.Rounds)+len(p.Recomputation.Rounds) > 0 {
		t.Errorf("%d rounds of the full batch within more than there is, and %d of 17", len(full.Recomputation.Rounds), len(p.Recomputation.Rounds))
	}
}

// The bytes of 9 of 24 equal layers suffice for segments of 6, 5, 4, … layers and two gradients: no
// instruction runs more than twice. With 5 layers some run three times. With a budget below the
// reach, a step takes at most twice as long.
func TestInstructionsRunAThirdTimeOnlyWhereTheyMust(t *testing.T) {
	const layer = 512 * 64 * 4
	n := equal()
	whole, _, _ := n.program(t, Train, nil, nil)
	count := func(p *ir.Program) map[string]int {
		runs := make(map[string]int)
		for _, in := range p.Instrs {
			runs[strings.TrimSuffix(in.Label, " again")]++
		}
		return runs
	}
	before := count(whole)
	for _, c := range []struct {
		budget      int64
		least, most int
	}{{9 * layer, 2, 2}, {5 * layer, 3, 9}, {1, 3, 99}} {
		p, _, _ := n.program(t, Train, nil, func(cfg *Config) { cfg.Recompute.Budget = c.budget })
		if c.budget >= layer && p.Plan.Bytes > c.budget {
			t.Errorf("%d bytes, want at most %d", p.Plan.Bytes, c.budget)
		}
		most := 0
		for label, runs := range count(p) {
			most = max(most, 1+runs-before[label])
		}
		if most < c.least || most > c.most {
			t.Errorf("within %d bytes something runs %d times, want %d to %d", c.budget, most, c.least, c.most)
		}
		if was, is := whole.Work().Time, p.Work().Time; is > 2*was {
			t.Errorf("within %d bytes a step takes %d, without %d", c.budget, is, was)
		}
	}
}

func TestEvaluationRecomputesNothing(t *testing.T) {
	p, _, _ := perceptrons[0].program(t, Evaluate, nil, func(c *Config) { c.Recompute.Budget = 1 })
	if p.Recomputation != nil {
		t.Errorf("%d rounds", len(p.Recomputation.Rounds))
	}
}
