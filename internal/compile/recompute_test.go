package compile

import (
	"slices"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// equal is a chain of 24 equal layers.
func equal() net {
	return net{name: "24 layers", widths: append(slices.Repeat([]int{64}, 24), 10), batch: 512, act: layers.Tanh, lean: true}
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
	each(t, func(t *testing.T, dev kernels.Device) {
		optimizers := optim.All()
		again := 0
		for s := range uint64(40) {
			s += *seed * 1000
			g, loss := randomGraph(s, []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2], false)
			o := optimizers[g.r.IntN(len(optimizers))].Optimizer
			cfg := g.config(dev, loss)
			cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.r.IntN(3))})
			cfg.Update.Lean = s%3 == 0 && cfg.Update.ClipNorm == 0
			want, p := g.steps(t, dev, cfg, o, 2)
			asked := []Recompute{{Budget: 1}, {Budget: p.Plan.Bytes / 2}, {Budget: p.Plan.Bytes * 3 / 4}}
			have := owners(p)
			asked = append(asked, Recompute{Owners: have}, Recompute{Owners: have[:1]})
			for _, r := range asked {
				cfg.Recompute = r
				got, q := g.steps(t, dev, cfg, o, 2)
				if q.Again != nil {
					again++
				}
				if q.Plan.Bytes > p.Plan.Bytes && r.Budget > 0 {
					t.Errorf("seed %d: a limit of %d bytes: got %d, more than the %d without", s, r.Budget, q.Plan.Bytes, p.Plan.Bytes)
				}
				if name := got.differs(want); name != "" {
					t.Fatalf("seed %d, %v: recompute %+v: %s is not what it is without: %x, %x\n%v\n%v", s, g.grown, r, name, got[name], want[name], listing(q), listing(p))
				}
			}
		}
		if again < 40 {
			t.Errorf("only %d programs recomputed anything", again)
		}
	})
}

func TestASmallerBatchRecomputesWhatTheLargerOneDoes(t *testing.T) {
	n := equal()
	homes := &ir.Homes{}
	g, cfg := n.config(t, Train, n.batch, openCPU(t), homes)
	cfg.Recompute.Budget = 14 * 512 * 64 * 4
	full := compileFor(t, g, cfg)
	if full.Again == nil {
		t.Fatal("nothing is recomputed")
	}
	g, small := n.config(t, Train, 17, openCPU(t), homes)
	small.Recompute, small.Like = cfg.Recompute, full
	p := compileFor(t, g, small)
	if p.Again == nil || !slices.Equal(p.Again.Dropped, full.Again.Dropped) || len(p.Instrs) != len(full.Instrs) {
		t.Fatalf("a batch of 17: got %d instructions, want the %d of the full batch", len(p.Instrs), len(full.Instrs))
	}
	if !slices.Equal(p.Plan.Offsets, full.Plan.Offsets) {
		t.Error("a batch of 17 lies elsewhere than the full one")
	}
}

func TestNoInstructionRunsMoreThanTwice(t *testing.T) {
	n := equal()
	whole, _, _ := n.program(t, Train, nil, nil)
	p, _, _ := n.program(t, Train, nil, func(c *Config) { c.Recompute.Budget = 8 * 512 * 64 * 4 })
	count := func(p *ir.Program) map[string]int {
		runs := make(map[string]int)
		for _, in := range p.Instrs {
			runs[in.Label]++
		}
		return runs
	}
	before, more := count(whole), 0
	for label, runs := range count(p) {
		if more += runs - before[label]; runs > 2*max(1, before[label]) {
			t.Errorf("%q runs %d times, without recomputation %d", label, runs, before[label])
		}
	}
	if more == 0 {
		t.Error("nothing runs again")
	}
}

func TestEvaluationRecomputesNothing(t *testing.T) {
	p, _, _ := perceptrons[0].program(t, Evaluate, nil, func(c *Config) { c.Recompute.Budget = 1 })
	if p.Again != nil {
		t.Errorf("%d values are dropped", len(p.Again.Dropped))
	}
}
