package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Recompute says which activations a training program computes again for the backward pass, in place of keeping them.
type Recompute struct {
	Owners []string // all that belong to these layers
	Budget int64    // bytes of scratch to get below at the least extra time; 0: no such aim
}

// recompute drops activations between the passes: their readers in the backward pass read a second computation of them, which stands right before
// the first such reader. Dropout draws by seed, step and layer, so its second mask is the first; what has an effect, or runs on the host, is never
// computed twice. No bits change.
//
//	y = f(x) │ … │ dx = g(y, dy)        becomes        y = f(x) │ … │ y' = f(x) │ dx = g(y', dy)
//
// A program for another batch takes over what this one drops.
//
// Parameters that are kept in host memory are dropped in any case, and fetched once more.
func (c *compiler) recompute() {
	if c.Mode != Train {
		return
	}
	if c.Recompute.Budget <= 0 && len(c.Recompute.Owners) == 0 {
		if r := c.newRemat(); len(r.fetched) > 0 {
			r.apply(c, r.nothing())
		}
		return
	}
	made := slices.Clone(c.Instrs)
	if like := c.likeAgain(); like != nil {
		c.arrange(made, like.Order)
		c.drops(like)
		return
	}
	var best *ir.Again
	var least choice
	for _, order := range c.orders() { // what lives when depends on it
		c.arrange(made, order)
		r := c.newRemat()
		var x choice
		if len(c.Recompute.Owners) > 0 {
			x = r.choiceOf(slices.DeleteFunc(slices.Clone(r.saved), func(v kernels.Value) bool { return !slices.Contains(c.Recompute.Owners, c.Values[v].Owner) }), nil)
			r.measure(&x)
		} else {
			x = r.search(c.Recompute.Budget)
		}
		if best == nil || x.better(&least, c.Recompute.Budget) {
			best, least = &ir.Again{Values: len(c.Values), Order: order, Dropped: members(x.drop), Kept: members(x.keep)}, x
		}
	}
	if len(best.Dropped) == 0 {
		c.Instrs = made
		return
	}
	c.arrange(made, best.Order)
	c.drops(best)
}

// bestOrders is how many of the orders that are best where nothing is dropped are tried: what is dropped makes another one the best.
const bestOrders = 3

// orders returns the orders of instructions in which dropping is tried: what is best where nothing is dropped, and as they were made.
func (c *compiler) orders() [][]int32 {
	d := c.copied()
	d.Like = nil
	d.alias()
	found := d.candidates()
	all := [][]int32{found[0].order}
	if c.scheduler != nil {
		return all
	}
	made := sequence(len(c.Instrs))
	for _, f := range found[1:min(bestOrders, len(found))] {
		if !slices.Equal(f.order, made) {
			all = append(all, f.order)
		}
	}
	return append(all, made)
}

// arrange puts the instructions made in an order.
func (c *compiler) arrange(made []ir.Instr, order []int32) {
	c.Instrs = make([]ir.Instr, len(made))
	for at, i := range order {
		c.Instrs[at] = made[i]
	}
}

// drops makes the program compute again what a drops.
func (c *compiler) drops(a *ir.Again) {
	r := c.newRemat()
	c.Again = a
	r.apply(c, r.choiceOf(a.Dropped, a.Kept))
}

// likeAgain returns what the program for a larger batch computes again, if this one is made of the same instructions.
func (c *compiler) likeAgain() *ir.Again {
	if c.Like == nil || c.Like.Again == nil || c.Like.Again.Values != len(c.Values) || len(c.Like.Again.Order) != len(c.Instrs) {
		return nil
	}
	return c.Like.Again
}

// members returns the values that are set.
func members(set []bool) []kernels.Value {
	var vs []kernels.Value
	for v, in := range set {
		if in {
			vs = append(vs, kernels.Value(v))
		}
	}
	return vs
}

// remat is what is known of a program in which some activations may be computed again. Values are told by the roots of their bytes.
type remat struct {
	c     *compiler
	root  []kernels.Value // by value
	maker []int32         // by value: the instruction that makes it, -1 for homes
	bytes []int64         // by root
	work  []int64         // by instruction, as ir.Work.Time
	saved []kernels.Value // roots that the forward pass makes and the backward pass reads, in the order in which they are made
	until []int32         // by root: the last instruction of the forward pass that reads it
	first []int32         // by root: the first instruction of the backward pass that reads it, -1 for none

	fetched []kernels.Value // what is fetched once more for the backward pass
}

// choice is what is computed again, and what is kept in order to begin from it, by root.
type choice struct {
	drop, keep []bool
	peak, work int64 // most bytes live, and extra time
}

// better reports whether x is to be taken before y where the peak should be within budget bytes.
func (x *choice) better(y *choice, budget int64) bool {
	fits, had := x.peak <= budget, y.peak <= budget
	switch {
	case fits != had:
		return fits
	case fits:
		return x.work < y.work
	}
	return x.peak < y.peak
}

func (c *compiler) newRemat() *remat {
	d := c.copied()
	d.alias()
	n := len(c.Values)
	r := &remat{c: c, root: make([]kernels.Value, n), maker: make([]int32, n), bytes: make([]int64, n), work: make([]int64, len(c.Instrs)),
		until: make([]int32, n), first: make([]int32, n)}
	for v := range n {
		r.root[v], _ = d.Root(kernels.Value(v))
		r.maker[v], r.until[v], r.first[v] = -1, -1, -1
		if r.root[v] == kernels.Value(v) && !c.Values[v].Home {
			r.bytes[v] = arena.Round(c.Values[v].Spec.Bytes())
		}
	}
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if !kernels.Transfers(in.Op) { // they run beside
			r.work[i] = d.WorkOf(in).Time
		}
		for _, o := range in.Out {
			r.maker[o] = int32(i)
		}
		for _, v := range in.In {
			v = r.root[v]
			switch {
			case !in.Back:
				r.until[v] = int32(i)
			case r.first[v] < 0:
				r.first[v] = int32(i)
			}
		}
	}
	for i := range c.Instrs {
		for _, o := range c.Instrs[i].Out {
			if r.root[o] == o && r.first[o] >= 0 && r.again(o) && !r.transferred(o) {
				r.saved = append(r.saved, o)
			}
		}
	}
	r.refetch()
	return r
}

// transferred reports whether v, which an instruction makes, is a copy of what is kept in host memory.
func (r *remat) transferred(v kernels.Value) bool { return r.c.Instrs[r.maker[v]].Op == kernels.Fetch }

// refetch finds what is fetched once more for the backward pass: the copies that both passes read, but for one of which no other is read between the passes, as of
// the last layer.
func (r *remat) refetch() {
	turn, last := 0, kernels.None
	until := make(map[kernels.Value]int) // by copy: the turn in which the forward pass reads it last
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		for _, v := range in.In {
			v = r.root[v]
			if !r.again(v) || !r.transferred(v) {
				continue
			}
			if v != last {
				turn, last = turn+1, v
			}
			switch {
			case !in.Back:
				until[v] = turn
			case r.first[v] == int32(i) && until[v] < turn:
				r.fetched = append(r.fetched, v)
			}
		}
	}
}

// again reports whether v, a value of scratch that the forward pass makes, can be computed once more.
func (r *remat) again(v kernels.Value) bool {
	i := r.maker[v]
	if i < 0 || r.c.Values[r.root[v]].Home {
		return false
	}
	in := &r.c.Instrs[i]
	return !in.Back && in.Op != kernels.Host && len(in.Op.Updates) == 0
}

func (r *remat) choiceOf(drop, keep []kernels.Value) choice {
	x := r.nothing()
	for _, v := range drop {
		x.drop[v] = true
	}
	for _, v := range keep {
		x.keep[v] = true
	}
	return x
}

// nothing returns the choice that drops nothing but copies of what is kept in host memory.
func (r *remat) nothing() choice {
	x := choice{drop: make([]bool, len(r.root)), keep: make([]bool, len(r.root))}
	for _, v := range r.fetched {
		x.drop[v] = true
	}
	return x
}

// stays reports whether v is there for the backward pass: in a home, or kept, or not to be had again.
func (r *remat) stays(x *choice, v kernels.Value) bool {
	root := r.root[v]
	return !r.again(v) || !x.drop[root] && (x.keep[root] || r.first[root] >= 0)
}

// apply rewrites c's instructions, which are those that r knows.
func (r *remat) apply(c *compiler, x choice) {
	now := make(map[kernels.Value]kernels.Value) // the second computation of a value
	made := make([]ir.Instr, 0, 2*len(c.Instrs))
	var again func(v kernels.Value) kernels.Value
	again = func(v kernels.Value) kernels.Value {
		if w, ok := now[v]; ok {
			return w
		}
		in := c.Instrs[r.maker[v]]
		in.In, in.Out = slices.Clone(in.In), slices.Clone(in.Out)
		in.Back, in.Again, in.Label = true, true, in.Label+" again"
		for k, w := range in.In {
			if !r.stays(&x, w) {
				in.In[k] = again(w)
			}
		}
		for k, o := range in.Out {
			val := c.Values[o]
			val.Of, val.Delta = kernels.None, 0
			in.Out[k] = c.Add(val)
			now[o] = in.Out[k]
		}
		made = append(made, in)
		return now[v]
	}
	wanted := r.wanted(&x)
	for i := range c.Instrs {
		in := c.Instrs[i]
		if in.Back {
			in.In = slices.Clone(in.In)
			for k, v := range in.In {
				if r.again(v) && x.drop[r.root[v]] {
					in.In[k] = again(v)
				}
			}
			for _, k := range kernels.UpdatesOf(in.Op, in.Attrs) {
				for _, w := range wanted { // what reads this home has to do so before it changes
					if w.until > int32(i) && slices.Contains(w.homes, r.root[c.Instrs[i].In[k]]) {
						again(w.value)
					}
				}
			}
		}
		made = append(made, in)
	}
	c.Instrs = made
}

// wanted is a value that is computed again, the homes that this reads, and the last instruction that wants it.
type wanted struct {
	value kernels.Value
	homes []kernels.Value
	until int32
}

// wanted returns what the backward pass reads of what is dropped.
func (r *remat) wanted(x *choice) []wanted {
	last := make(map[kernels.Value]int32)
	var found []wanted
	for i := range r.c.Instrs {
		for _, v := range r.c.Instrs[i].In {
			if r.c.Instrs[i].Back && r.again(v) && x.drop[r.root[v]] {
				if _, seen := last[v]; !seen {
					found = append(found, wanted{value: v})
				}
				last[v] = int32(i)
			}
		}
	}
	homes := make([][]kernels.Value, len(r.root)) // that a second computation reads
	for i := range r.c.Instrs {
		in := &r.c.Instrs[i]
		if in.Back || len(found) == 0 {
			continue
		}
		var reads []kernels.Value
		for _, v := range in.In {
			if r.c.Values[r.root[v]].Home {
				reads = append(reads, r.root[v])
			} else if !r.stays(x, v) {
				reads = append(reads, homes[v]...)
			}
		}
		slices.Sort(reads)
		reads = slices.Compact(reads)
		for _, o := range in.Out {
			homes[o] = reads
		}
	}
	for i := range found {
		w := &found[i]
		w.homes, w.until = homes[w.value], last[w.value]
	}
	return found
}

// measure fills in the peak and the extra work of x. positions are those of r's instructions in the rewritten program.
func (r *remat) measure(x *choice) (live []int64, positions []int32) {
	d := r.c.copied()
	r.apply(d, *x)
	positions = make([]int32, 0, len(r.c.Instrs))
	x.work = 0
	for i := range d.Instrs {
		if d.Instrs[i].Again {
			continue
		}
		positions = append(positions, int32(i))
	}
	d.alias()
	for i := range d.Instrs {
		if d.Instrs[i].Again && !kernels.Transfers(d.Instrs[i].Op) {
			x.work += d.WorkOf(&d.Instrs[i]).Time
		}
	}
	if d.Off&InPlace == 0 {
		d.inPlace()
	}
	live = make([]int64, len(d.Instrs)+1)
	for _, b := range d.lifetimes().buffers {
		live[b.Start] += arena.Round(b.Size)
		live[b.End] -= arena.Round(b.Size)
	}
	x.peak = 0
	for i := range live {
		if i > 0 {
			live[i] += live[i-1]
		}
		x.peak = max(x.peak, live[i])
	}
	return live, positions
}

// copied returns a copy of c of which instructions and values may be changed.
func (c *compiler) copied() *compiler {
	d, p := *c, *c.Program
	p.Instrs, p.Values = slices.Clone(p.Instrs), slices.Clone(p.Values)
	d.Program = &p
	return &d
}
