package compile

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Offload says what is kept in pinned host memory, in place of the arena.
type Offload struct {
	State      bool     // of the optimizer
	Parameters bool     // of all layers, see keeps
	Layers     []string // those of these layers, see keeps
}

// keeps reports whether a parameter is kept in host memory: it is one of two dimensions or more. Vectors are small: transfers of them would take
// longer to begin than to be done.
func (o *Offload) keeps(name string, spec kernels.Spec) bool {
	return len(spec.Shape) > 1 && (o.Parameters || slices.Contains(o.Layers, ir.OwnerOf(name)))
}

// A part of an update is what is fetched, changed and stowed at once: of a rule that treats every element, or block of them, by itself, some of the elements.
const (
	leastPart = 256 << 10      // bytes that are fetched: shorter transfers take longer to begin than to be done
	mostParts = 16             // of an update, so that scratch has at most an eighth of what it changes
	partStep  = kernels.Block8 // elements of which a part has a multiple, but for the last one: whole blocks, and cache lines
)

// offload lets a program work on copies of what is kept in host memory: on a copy of each parameter, which recompute lets the backward pass fetch
// once more, and, part by part, of what updates change.
//
//	y = f(x, w)         becomes                           w' = fetch w │ y = f(x, w')
//	update w, m         becomes, for each part,           w', m' = fetch w, m │ update w', m' │ stow w', m' → w, m
//
// Where the transfers stand is decided by streamed.
func (c *compiler) offload() {
	o := offloader{c: c, away: make(map[kernels.Value]bool), copies: make(map[kernels.Value]kernels.Value)}
	for v, val := range c.Values {
		if val.Home && slices.Contains(ir.Offloaded[:], val.Ref.Region) {
			o.away[kernels.Value(v)] = true
		}
	}
	if len(o.away) == 0 {
		return
	}
	instrs, changed := c.Instrs, c.changed()
	c.Instrs = make([]ir.Instr, 0, len(instrs))
	for _, in := range instrs {
		switch {
		case in.Op.View != nil && o.away[in.In[0]] && changed[in.Out[0]]: // some rows, for an update
			o.away[in.Out[0]] = true
			c.Instrs = append(c.Instrs, in)
		case in.Op == c.Update.Op:
			o.update(in)
		default:
			o.onCopies(&in, nil)
			c.Instrs = append(c.Instrs, in)
		}
	}
}

// changed returns what the updates of parameters change.
func (c *compiler) changed() map[kernels.Value]bool {
	found := make(map[kernels.Value]bool)
	for i := range c.Instrs {
		if in := &c.Instrs[i]; in.Op == c.Update.Op {
			for _, k := range kernels.UpdatesOf(in.Op, in.Attrs) {
				found[in.In[k]] = true
			}
		}
	}
	return found
}

// offloader is the work of the pass.
type offloader struct {
	c      *compiler
	away   map[kernels.Value]bool          // what lies in host memory: homes, and rows of them that updates change
	copies map[kernels.Value]kernels.Value // of homes
}

// onCopies lets an instruction read copies of what is in host memory, but for some operands.
func (o *offloader) onCopies(in *ir.Instr, but []int8) {
	in.In = slices.Clone(in.In)
	for k, v := range in.In {
		if !o.away[v] || slices.Contains(but, int8(k)) {
			continue
		}
		if _, ok := o.copies[v]; !ok {
			c := o.c
			c.Label, c.Owner, c.Mark, c.Backward = "fetch "+c.Values[v].Name, c.Values[v].Owner, "", in.Back
			o.copies[v] = c.Apply(kernels.Fetch, nil, v)
		}
		in.In[k] = o.copies[v]
	}
}

// update appends an update: where it changes what is in host memory, its parts, with their transfers.
func (o *offloader) update(in ir.Instr) {
	c, updates := o.c, kernels.UpdatesOf(in.Op, in.Attrs)
	moved := slices.DeleteFunc(slices.Clone(updates), func(k int8) bool { return !o.away[in.In[k]] })
	o.onCopies(&in, moved)
	if len(moved) == 0 {
		c.Instrs = append(c.Instrs, in)
		return
	}
	c.Owner, c.Mark, c.Backward = in.Owner, "", true
	c.Roots = slices.DeleteFunc(c.Roots, func(v kernels.Value) bool { return slices.Contains(in.Out, v) })
	name := strings.TrimPrefix(in.Label, "update ")
	for _, homes := range c.parts(&in, moved) {
		operands := slices.Clone(homes)
		c.Label = "fetch " + name
		for _, k := range moved {
			operands[k] = c.Apply(kernels.Fetch, nil, homes[k])
		}
		c.Label = in.Label
		out := slices.Clone(c.ApplyAll(in.Op, in.Attrs, operands...))
		c.Label = "stow " + name
		for i, k := range updates {
			if slices.Contains(moved, k) {
				out[i] = c.Apply(kernels.Stow, nil, out[i], homes[k])
			}
		}
		c.Roots = append(c.Roots, out...)
	}
}

// parts returns the operands of the parts of an update that changes the moved ones in host memory.
func (c *compiler) parts(in *ir.Instr, moved []int8) [][]kernels.Value {
	var bytes int64
	for _, k := range moved {
		bytes += c.Spec(in.In[k]).Bytes()
	}
	param := c.Spec(in.In[0]).Shape
	elems := param.Elems()
	n := int(min(bytes/leastPart, mostParts, int64(elems/partStep)))
	if n < 2 || c.Off&Views != 0 || in.Op != kernels.Adam8 && !c.byRows(in) {
		return [][]kernels.Value{in.In}
	}
	c.Label = in.Label
	flat := slices.Clone(in.In)
	cut := append(slices.Clone(kernels.UpdatesOf(in.Op, in.Attrs)), 1) // and the gradient
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

// streamed moves the transfers of an order to where they overlap with other work, by double buffers: right before the first reader of what is fetched next, a stop, what the stop
// before it has changed is stowed, and what the stop behind it reads is fetched. So what two stops read is in scratch at once, and transfers have the time
// from one stop to the next.
//
//	fetch 1 │ fetch 2 │ stop 1 │ … │ stow 1 │ fetch 3 │ stop 2 │ … │ stow 2 │ fetch 4 │ stop 3 │ … │ stow 3
func (s *streaming) streamed(order []int32) []int32 {
	s.stop(order)
	if len(s.stops) == 0 {
		return order
	}
	s.order, s.done = make([]int32, 0, len(order)), make([]bool, len(s.c.Instrs))
	k := 0
	for _, i := range order {
		switch {
		case kernels.Transfers(s.c.Instrs[i].Op):
			continue
		case k < len(s.stops) && i == s.stops[k]:
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
	s.stow(k - 1)
	return s.order
}

// streaming makes orders in which transfers overlap with other work.
type streaming struct {
	c       *compiler
	maker   []int32   // by value: the instruction that makes it, where that is a view or fetches it, else -1
	reads   [][]int32 // by instruction: the fetches of what it reads
	fetched [][]int32 // by home: the fetches of its bytes
	stows   [][]int32 // by what is stowed

	// Of the order that is made:
	order []int32
	done  []bool  // by instruction: it is in order
	stops []int32 // the first readers of what is fetched
}

func (c *compiler) newStreaming() *streaming {
	s := &streaming{c: c, maker: make([]int32, len(c.Values)), reads: make([][]int32, len(c.Instrs)), fetched: make([][]int32, len(c.Values)), stows: make([][]int32, len(c.Values))}
	for v := range s.maker {
		s.maker[v] = -1
	}
	for i := range c.Instrs {
		switch in := &c.Instrs[i]; {
		case in.Op == kernels.Stow:
			s.stows[in.In[0]] = append(s.stows[in.In[0]], int32(i))
		case in.Op == kernels.Fetch:
			root, _ := c.Root(in.In[0])
			s.fetched[root] = append(s.fetched[root], int32(i))
			s.maker[in.Out[0]] = int32(i)
		case in.Op.View != nil:
			s.maker[in.Out[0]] = int32(i)
		}
	}
	for i := range c.Instrs {
		for _, v := range c.Instrs[i].In {
			if f := s.maker[v]; f >= 0 && c.Instrs[f].Op == kernels.Fetch {
				s.reads[i] = append(s.reads[i], f)
			}
		}
	}
	return s
}

// stop finds the stops of an order.
func (s *streaming) stop(order []int32) {
	s.stops = s.stops[:0]
	read := make([]bool, len(s.c.Instrs)) // fetches
	for _, i := range order {
		first := false
		for _, f := range s.reads[i] {
			first = first || !read[f]
			read[f] = true
		}
		if first {
			s.stops = append(s.stops, i)
		}
	}
}

// add appends an instruction, behind the views that a transfer is about, and what is stowed behind all that is fetched of the bytes that were there.
func (s *streaming) add(i int32) {
	if s.done[i] {
		return
	}
	s.done[i] = true
	in := &s.c.Instrs[i]
	if kernels.Transfers(in.Op) {
		for _, v := range in.In {
			if m := s.maker[v]; m >= 0 {
				s.add(m)
			}
		}
	}
	if in.Op == kernels.Stow {
		root, _ := s.c.Root(in.In[1])
		for _, f := range s.fetched[root] {
			if s.c.meet(s.c.Instrs[f].In[0], in.In[1]) {
				s.add(f)
			}
		}
	}
	s.order = append(s.order, i)
}

// meet reports whether two values share bytes.
func (c *compiler) meet(v, w kernels.Value) bool {
	a, from := c.Root(v)
	b, at := c.Root(w)
	return a == b && from < at+c.Spec(w).Bytes() && at < from+c.Spec(v).Bytes()
}

// fetch appends the fetches of the k-th stop, if there is one.
func (s *streaming) fetch(k int) {
	if k >= len(s.stops) {
		return
	}
	for _, f := range s.reads[s.stops[k]] {
		s.add(f)
	}
}

// stow appends the stows of what the k-th stop has changed.
func (s *streaming) stow(k int) {
	for _, v := range s.c.Instrs[s.stops[k]].Out {
		for _, i := range s.stows[v] {
			s.add(i)
		}
	}
}
