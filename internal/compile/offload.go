package compile

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Offload says what is kept in pinned host memory, in place of the arena.
type Offload struct {
	State bool // of the optimizer
}

// A part of an update is what is fetched, changed and stowed at once: of a rule that treats every element, or block of them, by itself, some of the elements.
const (
	leastPart = 256 << 10      // bytes of states: shorter transfers take longer to begin than to be done
	mostParts = 16             // of an update, so that scratch has at most an eighth of its states
	partStep  = kernels.Block8 // elements of which a part has a multiple, but for the last one: whole blocks, and cache lines
)

// offload lets updates work on copies of the states that are kept in host memory, part by part.
//
//	update w, m        becomes, for each part,        m' = fetch m │ update w, m' │ stow m' → m
//
// Where these instructions stand is decided by streamed.
func (c *compiler) offload() {
	if !c.Offload.State {
		return
	}
	instrs := c.Instrs
	c.Instrs = make([]ir.Instr, 0, len(instrs))
	for _, in := range instrs {
		if in.Op != c.Update.Op || len(in.Out) < 2 { // or without states
			c.Instrs = append(c.Instrs, in)
			continue
		}
		c.owner, c.mark, c.back = in.Owner, "", true
		c.Roots = slices.DeleteFunc(c.Roots, func(v kernels.Value) bool { return slices.Contains(in.Out, v) })
		for _, operands := range c.parts(&in) {
			c.transfer(&in, operands)
		}
	}
}

// parts returns the operands of the parts of an update.
func (c *compiler) parts(in *ir.Instr) [][]kernels.Value {
	var bytes int64
	updates := kernels.UpdatesOf(in.Op, in.Attrs)
	for _, k := range updates[1:] {
		bytes += c.Spec(in.In[k]).Bytes()
	}
	param := c.Spec(in.In[0]).Shape
	elems := param.Elems()
	n := int(min(bytes/leastPart, mostParts, int64(elems/partStep)))
	if n < 2 || c.Off&Views != 0 || in.Op != kernels.Adam8 && !c.byRows(in) {
		return [][]kernels.Value{in.In}
	}
	c.label = in.Label
	flat := slices.Clone(in.In)
	cut := append(slices.Clone(updates), 1) // and the gradient
	for _, k := range cut {
		if c.Spec(in.In[k]).Shape.Equal(param) { // the rest has a row for each block
			flat[k] = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{elems}}, in.In[k])
		}
	}
	parts := make([][]kernels.Value, n)
	for i := range parts {
		parts[i] = slices.Clone(flat)
		from, to := partStart(elems, partStep, n, i), partStart(elems, partStep, n, i+1)
		for _, k := range cut {
			if flat[k] != in.In[k] {
				parts[i][k] = c.rowsOf(flat[k], from, to)
			} else {
				parts[i][k] = c.rowsOf(flat[k], from/kernels.Block8, (to+kernels.Block8-1)/kernels.Block8)
			}
		}
	}
	return parts
}

// transfer appends an update of such operands, with the transfers of its states.
func (c *compiler) transfer(in *ir.Instr, operands []kernels.Value) {
	updates := kernels.UpdatesOf(in.Op, in.Attrs)
	homes, operands := operands, slices.Clone(operands)
	name := strings.TrimPrefix(in.Label, "update ")
	for _, k := range updates[1:] {
		c.label = "fetch " + name
		operands[k] = c.Apply(kernels.Fetch, nil, homes[k])
	}
	c.label = in.Label
	out := c.apply(in.Op, in.Attrs, operands...)
	c.Roots = append(c.Roots, out[0])
	for i, k := range updates[1:] {
		c.label = "stow " + name
		c.Roots = append(c.Roots, c.Apply(kernels.Stow, nil, out[1+i], homes[k]))
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
