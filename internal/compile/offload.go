package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Offload says what is kept in pinned host memory, in place of the arena.
type Offload struct {
	State bool // of the optimizer
}

// offload lets updates work on copies of the states that are kept in host memory, or of the rows of them that an update is about.
//
//	update w, m        becomes        m' = fetch m │ update w, m' │ stow m' → m
//
// Where these instructions stand is decided by streamed.
func (c *compiler) offload() {
	if !c.Offload.State {
		return
	}
	instrs := c.Instrs
	c.Instrs = make([]ir.Instr, 0, len(instrs))
	for _, in := range instrs {
		if in.Op != c.Update.Op {
			c.Instrs = append(c.Instrs, in)
			continue
		}
		c.owner, c.mark, c.back = in.Owner, "", true
		in.In = slices.Clone(in.In)
		homes := make(map[kernels.Value]kernels.Value) // by output of the update
		for k, at := range kernels.UpdatesOf(in.Op, in.Attrs) {
			home := in.In[at]
			if !c.away(home) {
				continue
			}
			c.label = "fetch " + c.Values[home].Name
			in.In[at] = c.Apply(kernels.Fetch, nil, home)
			homes[in.Out[k]] = home
		}
		c.Instrs = append(c.Instrs, in)
		for _, made := range in.Out {
			home, ok := homes[made]
			if !ok {
				continue
			}
			c.label = "stow " + c.Values[home].Name
			stowed := c.Apply(kernels.Stow, nil, made, home)
			if i := slices.Index(c.Roots, made); i >= 0 {
				c.Roots[i] = stowed
			}
		}
	}
}

// away reports whether v, or what it is some rows of, is kept in host memory.
func (c *compiler) away(v kernels.Value) bool {
	for {
		if c.Values[v].Home {
			return c.Values[v].Ref.Region == ir.Host
		}
		i := slices.IndexFunc(c.Instrs, func(in ir.Instr) bool { return in.Op.View != nil && in.Out[0] == v })
		if i < 0 {
			return false
		}
		v = c.Instrs[i].In[0]
	}
}

// streamed moves the transfers of an order to where they overlap with other work, by double buffers: right before an update what the one before it has changed is
// stowed, and what the next one changes is fetched. So the states of two updates are in scratch at once, and both transfers have the time
// from one update to the next.
//
//	fetch 1 │ fetch 2 │ update 1 │ … │ stow 1 │ fetch 3 │ update 2 │ … │ stow 2 │ fetch 4 │ update 3 │ … │ stow 3
func (c *compiler) streamed(order []int32) []int32 {
	if !c.Offload.State {
		return order
	}
	s := c.newStreaming(order)
	k := 0
	for _, i := range order {
		switch {
		case kernels.Transfers(c.Instrs[i].Op):
			continue
		case k < len(s.updates) && i == s.updates[k]:
			if k == 0 {
				s.fetch(0)
			} else {
				s.stow(k - 1)
			}
			k++
			s.fetch(k)
		}
		s.add(i)
	}
	if k > 0 {
		s.stow(k - 1)
	}
	return s.order
}

// streaming makes an order in which transfers overlap with other work.
type streaming struct {
	c       *compiler
	order   []int32
	done    []bool                    // by instruction: it is in order
	maker   map[kernels.Value]int32   // of views and of what is fetched
	stows   map[kernels.Value][]int32 // by what is stowed
	updates []int32                   // that transfers belong to, in order
}

func (c *compiler) newStreaming(order []int32) *streaming {
	s := &streaming{c: c, order: make([]int32, 0, len(order)), done: make([]bool, len(c.Instrs)),
		maker: make(map[kernels.Value]int32), stows: make(map[kernels.Value][]int32)}
	for i := range c.Instrs {
		switch in := &c.Instrs[i]; {
		case in.Op == kernels.Stow:
			s.stows[in.In[0]] = append(s.stows[in.In[0]], int32(i))
		case in.Op == kernels.Fetch || in.Op.View != nil:
			s.maker[in.Out[0]] = int32(i)
		}
	}
	for _, i := range order {
		if len(s.fetches(i)) > 0 {
			s.updates = append(s.updates, i)
		}
	}
	return s
}

// fetches returns the fetches of what instruction i reads.
func (s *streaming) fetches(i int32) (found []int32) {
	for _, v := range s.c.Instrs[i].In {
		if f, ok := s.maker[v]; ok && s.c.Instrs[f].Op == kernels.Fetch {
			found = append(found, f)
		}
	}
	return found
}

// add appends an instruction, behind the views that a transfer is about.
func (s *streaming) add(i int32) {
	if s.done[i] {
		return
	}
	s.done[i] = true
	if in := &s.c.Instrs[i]; kernels.Transfers(in.Op) {
		for _, v := range in.In {
			if m, ok := s.maker[v]; ok {
				s.add(m)
			}
		}
	}
	s.order = append(s.order, i)
}

// fetch appends the fetches of the k-th update, if there is one.
func (s *streaming) fetch(k int) {
	if k >= len(s.updates) {
		return
	}
	for _, f := range s.fetches(s.updates[k]) {
		s.add(f)
	}
}

// stow appends the stows of the k-th update.
func (s *streaming) stow(k int) {
	for _, v := range s.c.Instrs[s.updates[k]].Out {
		for _, i := range s.stows[v] {
			s.add(i)
		}
	}
}
