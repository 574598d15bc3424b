package compile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// offloadedProgram compiles the training step of n with values in host memory.
func (n net) offloadedProgram(t *testing.T, o optim.Optimizer, away Offload) (*ir.Program, *ir.Homes) {
	t.Helper()
	p, _, homes := n.program(t, Train, nil, func(c *Config) {
		c.Offload = away
		c.Update = updateOf(o, n.clip)
		c.Update.GuardEach = n.guardEach
	})
	return p, homes
}

// updateAt returns, by instruction, the number of the update that it is, prefetches for or writes
// back after; -1: none.
func updateAt(p *ir.Program) []int {
	of := make([]int, len(p.Instrs))
	made := make(map[kernels.Value]int) // by copy, and by changed copy
	for i := range of {
		of[i] = -1
	}
	n := 0
	for i, in := range p.Instrs {
		fetched := slices.IndexFunc(p.Instrs[:i], func(f ir.Instr) bool { return f.Op == kernels.Prefetch && slices.Contains(in.In, f.Out[0]) })
		if in.Op == kernels.Writeback {
			of[i] = made[in.In[0]]
			continue
		} else if fetched < 0 {
			continue
		}
		for k, f := range p.Instrs[:i] {
			if f.Op == kernels.Prefetch && slices.Contains(in.In, f.Out[0]) {
				of[k] = n
			}
		}
		for _, o := range in.Out {
			made[o] = n
		}
		of[i] = n
		n++
	}
	return of
}

// Every byte of the state is copied to scratch once and written back once: for each update right
// before the previous update, and right before the next one, so that scratch holds the states of
// two updates at most.
func TestStatesAreStreamedByDoubleBuffers(t *testing.T) {
	for _, guardEach := range []bool{false, true} {
		for _, o := range optim.All() {
			if len(o.Optimizer.States(kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2, 2}})) == 0 {
				continue
			}
			n := net{name: "wide", widths: []int{600, 700, 20, 5}, batch: 24, act: layers.ReLU, guardEach: guardEach}
			p, homes := n.offloadedProgram(t, o.Optimizer, Offload{State: true})
			if homes.Bytes(ir.State) != 0 {
				t.Errorf("%s: %d bytes of state are in the arena", o.Name, homes.Bytes(ir.State))
			}
			fetched, written := make([]byte, homes.Bytes(ir.HostState)), make([]byte, homes.Bytes(ir.HostState))
			count := func(v kernels.Value, times []byte) {
				r := p.Values[v].Ref
				for i := r.Offset; i < r.Offset+r.Size; i++ {
					times[i]++
				}
			}
			of, most := updateAt(p), 0
			for i, in := range p.Instrs {
				switch in.Op {
				case kernels.Prefetch:
					count(in.In[0], fetched)
				case kernels.Writeback:
					count(in.In[1], written)
				default:
					continue
				}
				if of[i] < 0 {
					t.Errorf("%s: %q belongs to no update", o.Name, in.Label)
				}
			}
			for _, h := range homes.Parts(ir.HostState) {
				for i := h.Ref.Offset; i < h.Ref.Offset+h.Ref.Size; i++ {
					if fetched[i] != 1 || written[i] != 1 {
						t.Fatalf("%s: byte %d of %q is prefetched %d times and written back %d times", o.Name, i-h.Ref.Offset, h.Name, fetched[i], written[i])
					}
				}
			}
			updates := slices.Max(of) + 1
			if updates < len(p.Trained) {
				t.Errorf("%s: %d updates of %d parameters have transfers", o.Name, updates, len(p.Trained))
			}
			live := make([]bool, updates) // its states are in scratch
			for i := range of {
				if k := of[i]; k >= 0 {
					// The last writeback of an update frees its copies.
					live[k] = p.Instrs[i].Op != kernels.Writeback || slices.Contains(of[i+1:], k)
					now := 0
					for _, l := range live {
						if l {
							now++
						}
					}
					most = max(most, now)
				}
			}
			if most != 2 {
				t.Errorf("%s, guardEach %v: the states of %d updates are there at once, want 2\n%s", o.Name, guardEach, most, listing(p))
			}
		}
	}
}

// Parameters are prefetched for the forward pass, again for the backward pass except for the last
// layer, and once more, part by part, for their updates, which write them back. No byte is written
// back before the last prefetch of its old contents, and scratch holds copies of two weights at
// most.
func TestParametersAreStreamedByDoubleBuffers(t *testing.T) {
	deep := []int{40, 600, 500, 400, 300, 200, 10}
	for _, away := range []Offload{{Parameters: true}, {Parameters: true, State: true}, {Layers: []string{"layer1", "layer3"}}} {
		for _, o := range []optim.Optimizer{optim.SGD{}, optim.Adam{}, optim.Adafactor{}, optim.Adam{Storage: optim.Block8}} {
			for _, guardEach := range []bool{false, true} {
				n := net{name: "deep", widths: deep, batch: 24, act: layers.ReLU, guardEach: guardEach}
				p, homes := n.offloadedProgram(t, o, away)
				name := fmt.Sprintf("%T, %+v, guardEach %v", o, away, guardEach)
				weights := homes.Parts(ir.HostParameters)
				if want := len(deep) - 1; away.Parameters && len(weights) != want || !away.Parameters && len(weights) != 2 {
					t.Fatalf("%s: %d weights are in host memory", name, len(weights))
				}
				last, _, _ := strings.Cut(weights[len(weights)-1].Name, "/")
				for _, w := range weights {
					passes := 2                                 // forward and backward
					if w.Owner == last || w.Owner == "layer0" { // whose input has no gradient
						passes = 1
					}
					fetched, written := transfersOf(t, p, w)
					for i := range fetched {
						if fetched[i] != passes+1 || written[i] != 1 {
							t.Fatalf("%s: byte %d of %q is prefetched %d times and written back %d times, want %d and 1\n%s", name, i, w.Name, fetched[i], written[i], passes+1, listing(p))
						}
					}
				}
				if most := copiesAtOnce(p); most != 2 {
					t.Errorf("%s: copies of %d weights are in scratch at once\n%s", name, most, listing(p))
				}
			}
		}
	}
}

// transfersOf counts, for each byte of a home, its prefetches and writebacks, and fails the test
// where a prefetch follows a writeback.
func transfersOf(t *testing.T, p *ir.Program, home ir.Part) (fetched, written []int) {
	t.Helper()
	fetched, written = make([]int, home.Ref.Size), make([]int, home.Ref.Size)
	each := func(v kernels.Value, do func(i int64)) {
		if r := p.Values[v].Ref; r.Region == home.Ref.Region && r.Offset >= home.Ref.Offset && r.Offset < home.Ref.Offset+home.Ref.Size {
			for i := range r.Size {
				do(r.Offset - home.Ref.Offset + i)
			}
		}
	}
	for _, in := range p.Instrs {
		switch in.Op {
		case kernels.Prefetch:
			each(in.In[0], func(i int64) {
				fetched[i]++
				if written[i] > 0 {
					t.Fatalf("byte %d of %q is prefetched after it was written back\n%s", i, home.Name, listing(p))
				}
			})
		case kernels.Writeback:
			each(in.In[1], func(i int64) { written[i]++ })
		}
	}
	return fetched, written
}

// copiesAtOnce returns the largest number of weights of which copies, or parts of them, are in
// scratch at once.
func copiesAtOnce(p *ir.Program) (most int) {
	until := make([]int, len(p.Values)) // by root
	for i, in := range p.Instrs {
		for _, v := range in.In {
			root, _ := p.Root(v)
			until[root] = i
		}
	}
	of := make(map[kernels.Value]int64) // by copy: where its weights lie
	for i, in := range p.Instrs {
		if in.Op == kernels.Prefetch {
			if root, _ := p.Root(in.In[0]); p.Values[root].Ref.Region == ir.HostParameters {
				of[in.Out[0]] = p.Values[root].Ref.Offset
			}
		}
		weights := make(map[int64]bool)
		for v, w := range of {
			if until[v] >= i {
				weights[w] = true
			}
		}
		most = max(most, len(weights))
	}
	return most
}

// Offloading keeps the bits of random graphs, with any passes, order, recomputation, frozen
// parameters and guard, and only transfers touch host memory.
func TestOffloadKeepsTheBitsOfRandomGraphs(t *testing.T) {
	dev, optimizers := openCPU(t), optim.All()
	for s := range uint64(60) {
		s += seed.Value() * 1000
		g, loss := randomGraph(s, []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2], false)
		o := optimizers[g.Rand.IntN(len(optimizers))].Optimizer
		cfg := g.config(dev, loss)
		cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.Rand.IntN(3))})
		cfg.Update.GuardEach = g.Rand.IntN(2) == 0
		if frozen := g.params()[0].Name(); len(g.params()) > 1 && g.Rand.IntN(3) == 0 {
			cfg.Frozen = func(name string) bool { return name == frozen }
		}
		want, p := g.steps(t, dev, cfg, o, 2)
		for range 3 {
			cfg, sch := g.hostile(cfg, p), "best"
			if cfg.scheduler != nil {
				sch = cfg.scheduler.Name
			}
			got, q := g.steps(t, dev, cfg, o, 2)
			if name := got.differs(want); name != "" {
				t.Fatalf("seed %d, %v, %T, guardEach %v: offload %+v, without passes %b, order %q, recompute %+v: %s differs: %x, %x\n%v\n%v", s, g.grown, o, cfg.Update.GuardEach,
					cfg.Offload, cfg.Off, sch, cfg.Recompute, name, got[name], want[name], listing(q), listing(p))
			}
			for i, in := range q.Instrs {
				for _, v := range slices.Concat(in.In, in.Out) {
					if slices.Contains(ir.Offloaded[:], q.Values[v].Ref.Region) && !in.Op.IsTransfer() && !q.IsView(&q.Instrs[i]) {
						t.Errorf("seed %d: %s %q touches host memory", s, in.Op.Name, in.Label)
					}
				}
			}
		}
	}
}

// hostile returns cfg with random offloading, passes, order and recomputation; p is the program
// without them.
func (g *grower) hostile(cfg Config, p *ir.Program) Config {
	cfg.Offload = Offload{State: g.Rand.IntN(2) == 0, Parameters: g.Rand.IntN(2) == 0}
	for _, w := range g.params() {
		if !cfg.Offload.Parameters && g.Rand.IntN(2) == 0 {
			cfg.Offload.Layers = append(cfg.Offload.Layers, ir.OwnerOf(w.Name()))
		}
	}
	if g.Rand.IntN(3) == 0 {
		cfg.Off = switches[g.Rand.IntN(len(switches))].off &^ Sums // which changes bits
	}
	switch sch := shuffled(g.Rand.Uint64()); g.Rand.IntN(3) {
	case 0:
		cfg.scheduler = &sch
	case 1:
		all := schedule.Schedulers()
		cfg.scheduler = &all[g.Rand.IntN(len(all))]
	}
	switch g.Rand.IntN(3) {
	case 0:
		cfg.Recompute.Budget = 1 + g.Rand.Int64N(max(p.Plan.Live, 1))
	case 1:
		for _, v := range p.Values {
			if g.Rand.IntN(2) == 0 {
				cfg.Recompute.Owners = append(cfg.Recompute.Owners, v.Owner)
			}
		}
	}
	return cfg
}
