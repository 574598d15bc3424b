package compile

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// offloadedProgram is n's training step with its state in host memory.
func (n net) offloadedProgram(t *testing.T, o optim.Optimizer, off Pass) (*ir.Program, *ir.Homes) {
	t.Helper()
	p, _, homes := n.program(t, Train, nil, func(c *Config) {
		c.Off, c.Offload.State = off, true
		c.Update = updateOf(o, n.clip)
		c.Update.Lean = n.lean
	})
	return p, homes
}

// updateAt returns, by instruction, which update of the program it fetches for, is, or stows behind; -1: none.
func updateAt(p *ir.Program) []int {
	of := make([]int, len(p.Instrs))
	made := make(map[kernels.Value]int) // by what is fetched or changed
	for i := range of {
		of[i] = -1
	}
	n := 0
	for i, in := range p.Instrs {
		fetched := slices.IndexFunc(p.Instrs[:i], func(f ir.Instr) bool { return f.Op == kernels.Fetch && slices.Contains(in.In, f.Out[0]) })
		if in.Op == kernels.Stow {
			of[i] = made[in.In[0]]
			continue
		} else if fetched < 0 {
			continue
		}
		for k, f := range p.Instrs[:i] {
			if f.Op == kernels.Fetch && slices.Contains(in.In, f.Out[0]) {
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

// Every byte of the state is fetched once and stowed once, each update's states right before the update in front of it and right before the one behind it,
// so that those of two updates at most are in scratch at once.
func TestStatesAreStreamedByDoubleBuffers(t *testing.T) {
	for _, lean := range []bool{false, true} {
		for _, o := range optim.All() {
			if len(o.Optimizer.States(kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2, 2}})) == 0 {
				continue
			}
			n := net{name: "wide", widths: []int{600, 700, 20, 5}, batch: 24, act: layers.ReLU, lean: lean}
			p, homes := n.offloadedProgram(t, o.Optimizer, 0)
			if homes.Bytes(ir.State) != 0 {
				t.Errorf("%s: %d bytes of state are in the arena", o.Name, homes.Bytes(ir.State))
			}
			fetched, stowed := make([]byte, homes.Bytes(ir.Host)), make([]byte, homes.Bytes(ir.Host))
			count := func(v kernels.Value, times []byte) {
				r := p.Values[v].Ref
				for i := r.Offset; i < r.Offset+r.Size; i++ {
					times[i]++
				}
			}
			of, most := updateAt(p), 0
			for i, in := range p.Instrs {
				switch in.Op {
				case kernels.Fetch:
					count(in.In[0], fetched)
				case kernels.Stow:
					count(in.In[1], stowed)
				default:
					continue
				}
				if of[i] < 0 {
					t.Errorf("%s: %q belongs to no update", o.Name, in.Label)
				}
			}
			for _, h := range homes.Parts(ir.Host) {
				for i := h.Ref.Offset; i < h.Ref.Offset+h.Ref.Size; i++ {
					if fetched[i] != 1 || stowed[i] != 1 {
						t.Fatalf("%s: byte %d of %q is fetched %d times and stowed %d times", o.Name, i-h.Ref.Offset, h.Name, fetched[i], stowed[i])
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
					// What is stowed last leaves scratch then.
					live[k] = p.Instrs[i].Op != kernels.Stow || slices.Contains(of[i+1:], k)
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
				t.Errorf("%s, lean %v: the states of %d updates are there at once, want 2\n%s", o.Name, lean, most, listing(p))
			}
		}
	}
}
