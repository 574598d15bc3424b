package compile

import (
	"cmp"
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
// What is computed again may be dropped in its turn, in another round: where y' serves to compute more, and then waits for g, there is a y".
//
// A program for another batch takes over what this one drops.
//
// Parameters that are kept in host memory are dropped in any case, and fetched once more.
func (c *compiler) recompute() {
	if c.Mode != Train {
		return
	}
	if c.Recompute.Budget <= 0 && len(c.Recompute.Owners) == 0 {
		c.refetch()
		return
	}
	made := slices.Clone(c.Instrs)
	if c.Again = c.likeAgain(); c.Again == nil {
		c.Again = c.chosen(made)
	}
	if len(c.Again.Rounds) == 0 {
		c.Instrs = made
		c.refetch()
		return
	}
	c.arrange(made, c.Again.Order)
	c.drops(c.Again)
}

// chosen returns what is best computed again of the instructions made, and in which order of them. It leaves c's instructions in any order.
func (c *compiler) chosen(made []ir.Instr) *ir.Again {
	var best []int32
	var least choice
	for _, order := range c.orders() { // what lives when depends on it
		c.arrange(made, order)
		r := c.newRemat()
		var x choice
		if len(c.Recompute.Owners) > 0 {
			x.rounds = []round{r.nothing()}
			for _, v := range r.saved {
				x.rounds[0].drop[v] = slices.Contains(c.Recompute.Owners, c.Values[v].Owner)
			}
			r.measure(&x)
		} else {
			x = r.search(c.Recompute.Budget)
		}
		if best == nil || x.better(&least, c.Recompute.Budget) {
			best, least = order, x
		}
	}
	c.arrange(made, best)
	r := c.newRemat()
	if len(c.Recompute.Owners) == 0 {
		r.polish(&least, c.Recompute.Budget)
	}
	return &ir.Again{Values: len(c.Values), Order: best, Rounds: r.rounds(&least)}
}

// refetch fetches once more what is kept in host memory, where nothing is computed again.
func (c *compiler) refetch() {
	if !slices.ContainsFunc(c.Instrs, func(in ir.Instr) bool { return in.Op == kernels.Fetch }) {
		return
	}
	if r := c.newRemat(); slices.Contains(r.fetched, true) {
		r.apply(c, []round{r.nothing()})
	}
}

// Orders in which dropping is tried.
const (
	bestOrders  = 2 // of those that are best where nothing is dropped
	reachOrders = 2 // of those in which trees promise the lowest peak
)

// orders returns the orders of instructions in which dropping is tried: what is dropped makes another one the best.
func (c *compiler) orders() [][]int32 {
	made := slices.Clone(c.Instrs)
	d := c.copied()
	d.Like = nil
	d.alias()
	found := d.candidates()
	if c.scheduler != nil {
		return [][]int32{found[0].order}
	}
	all := [][]int32{sequence(len(made))}
	add := func(some []candidate) {
		for _, f := range some {
			if !slices.ContainsFunc(all, func(o []int32) bool { return slices.Equal(o, f.order) }) {
				all = append(all, f.order)
			}
		}
	}
	add(found[:min(bestOrders, len(found))])
	for i := range found {
		c.arrange(made, found[i].order)
		if t := c.newRemat().cuts(); t != nil {
			found[i].peak = t.reach()
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.peak, b.peak) })
	add(found[:min(reachOrders, len(found))])
	return all
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
	rounds := make([]round, len(a.Rounds))
	for k, x := range a.Rounds {
		rounds[k] = r.nothing()
		for _, v := range x.Dropped {
			rounds[k].drop[v] = true
		}
		for _, v := range x.Kept {
			rounds[k].keep[v] = true
		}
	}
	r.apply(c, rounds)
}

// rounds returns the rounds of x, none where it drops nothing.
func (r *remat) rounds(x *choice) (all []ir.Round) {
	for k := range x.rounds {
		rd := ir.Round{Dropped: members(x.rounds[k].drop), Kept: members(x.rounds[k].keep)}
		if len(x.rounds) > 1 || len(rd.Dropped) > 0 {
			all = append(all, rd)
		}
	}
	return all
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

// remat is what is known of a program in which some activations may be computed again. Values are told by the roots of their bytes. What is early makes
// activations, in the forward pass or again; all else in the backward pass is late, and reads them.
type remat struct {
	c      *compiler
	origin []kernels.Value // by value: what it is a second computation of, in the program of the first round; itself for what is in that
	root   []kernels.Value // by value
	maker  []int32         // by value: the instruction that makes it, -1 for homes
	bytes  []int64         // by root
	work   []int64         // by instruction, as ir.Work.Time
	extra  int64           // of what is computed again already
	saved  []kernels.Value // roots that are made early and read late, in the order in which they are made
	until  []int32         // by root: the last early instruction that reads it
	first  []int32         // by root: the first late instruction that reads it, -1 for none

	fetched []bool // by root: whether it is fetched once more for the backward pass, whatever is chosen
}

// round is what late instructions read a second computation of, and what is kept in order to begin from it, by root of the first round. Of an activation that
// has been computed again, this means the last computation.
type round struct{ drop, keep []bool }

// choice is the rounds of recomputation, one after the other: each finds what the ones before have made of the program.
type choice struct {
	rounds     []round
	peak, work int64 // most bytes live, and extra time
}

// trim takes rounds at the end that drop nothing off, but for the first.
func (x *choice) trim() {
	for last := len(x.rounds) - 1; last > 0 && !slices.Contains(x.rounds[last].drop, true); last-- {
		x.rounds = x.rounds[:last]
	}
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
	return x.peak < y.peak || x.peak == y.peak && x.work < y.work
}

func (c *compiler) newRemat() *remat {
	now := rewritten{origin: make([]kernels.Value, len(c.Values)), work: make([]int64, len(c.Instrs))}
	for v := range now.origin {
		now.origin[v] = kernels.Value(v)
	}
	d := c.copied()
	d.alias()
	for i := range d.Instrs {
		if in := &d.Instrs[i]; !kernels.Transfers(in.Op) { // they run beside
			now.work[i] = d.WorkOf(in).Time
		}
	}
	return c.rematOf(now)
}

// rewritten is what is known of a program in which values are computed again.
type rewritten struct {
	origin    []kernels.Value // as in remat
	work      []int64         // as in remat
	extra     int64           // of what is computed again
	positions []int32         // by instruction of the program before: which one it is now
}

// rematOf is newRemat for a program in which values are computed again.
func (c *compiler) rematOf(now rewritten) *remat {
	d := c.copied()
	d.alias()
	n := len(c.Values)
	r := &remat{c: c, origin: now.origin, work: now.work, extra: now.extra, root: make([]kernels.Value, n), maker: make([]int32, n), bytes: make([]int64, n),
		until: make([]int32, n), first: make([]int32, n), fetched: make([]bool, n)}
	for v := range n {
		r.root[v], _ = d.Root(kernels.Value(v))
		r.maker[v], r.until[v], r.first[v] = -1, -1, -1
		if r.root[v] == kernels.Value(v) && !c.Values[v].Home {
			r.bytes[v] = arena.Round(c.Values[v].Spec.Bytes())
		}
	}
	for i := range c.Instrs {
		in := &c.Instrs[i]
		for _, o := range in.Out {
			r.maker[o] = int32(i)
		}
		for _, v := range in.In {
			v = r.root[v]
			switch {
			case early(in):
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
			case early(in):
				until[v] = turn
			case r.first[v] == int32(i) && until[v] < turn:
				r.fetched[v] = true
			}
		}
	}
}

// early reports whether in makes activations.
func early(in *ir.Instr) bool { return !in.Back || in.Again }

// again reports whether v, a value of scratch that is made early, can be computed once more.
func (r *remat) again(v kernels.Value) bool {
	i := r.maker[v]
	if i < 0 || r.c.Values[r.root[v]].Home {
		return false
	}
	in := &r.c.Instrs[i]
	return early(in) && in.Op != kernels.Host && len(in.Op.Updates) == 0
}

// nothing returns a round that drops nothing.
func (r *remat) nothing() round {
	return round{drop: make([]bool, len(r.root)), keep: make([]bool, len(r.root))}
}

// drops reports whether x drops v.
func (r *remat) drops(x *round, v kernels.Value) bool {
	root := r.root[v]
	return r.again(v) && (x.drop[r.origin[root]] || r.fetched[root])
}

// stays reports whether v is there for the backward pass: in a home, or kept, or not to be had again.
func (r *remat) stays(x *round, v kernels.Value) bool {
	root := r.root[v]
	return !r.again(v) || !r.drops(x, v) && (x.keep[r.origin[root]] || r.first[root] >= 0)
}

// apply rewrites c's instructions, which are those that r knows, in rounds, of which there is at least one.
func (r *remat) apply(c *compiler, rounds []round) (now rewritten) {
	for k := range rounds {
		if k > 0 {
			r = c.rematOf(now)
		}
		now = r.rewrite(c, &rounds[k])
	}
	return now
}

// rewrite is apply for one round.
func (r *remat) rewrite(c *compiler, x *round) rewritten {
	now := make(map[kernels.Value]kernels.Value) // the second computation of a value
	asked := make([]bool, len(c.Instrs))         // whether an instruction has been repeated
	made := make([]ir.Instr, 0, 2*len(c.Instrs))
	as := rewritten{origin: slices.Clone(r.origin), work: make([]int64, 0, 2*len(c.Instrs)), extra: r.extra, positions: make([]int32, len(c.Instrs))}
	repeat := func(i int32) {
		in := c.Instrs[i]
		in.In, in.Out = slices.Clone(in.In), slices.Clone(in.Out)
		if !in.Again {
			in.Back, in.Again, in.Label = true, true, in.Label+" again"
		}
		for k, w := range in.In {
			if !r.stays(x, w) {
				in.In[k] = now[w]
			}
		}
		for k, o := range in.Out {
			val := c.Values[o]
			val.Of, val.Delta = kernels.None, 0
			in.Out[k] = c.Add(val)
			as.origin = append(as.origin, r.origin[o])
			now[o] = in.Out[k]
		}
		made, as.work, as.extra = append(made, in), append(as.work, r.work[i]), as.extra+r.work[i]
	}
	again := func(v kernels.Value) kernels.Value {
		for _, i := range r.makers(x, v, asked) {
			repeat(i)
		}
		return now[v]
	}
	wanted := r.wanted(x)
	for i := range c.Instrs {
		in := c.Instrs[i]
		if !early(&in) {
			in.In = slices.Clone(in.In)
			for k, v := range in.In {
				if r.drops(x, v) {
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
		as.positions[i] = int32(len(made))
		made, as.work = append(made, in), append(as.work, r.work[i])
	}
	c.Instrs = made
	return as
}

// makers returns the instructions that are to be repeated for v, in their order, without those that were asked for before.
func (r *remat) makers(x *round, v kernels.Value, asked []bool) (all []int32) {
	var visit func(v kernels.Value)
	visit = func(v kernels.Value) {
		i := r.maker[v]
		if asked[i] {
			return
		}
		asked[i] = true
		all = append(all, i)
		for _, w := range r.c.Instrs[i].In {
			if !r.stays(x, w) {
				visit(w)
			}
		}
	}
	visit(v)
	slices.Sort(all)
	return all
}

// wanted is a value that is computed again, the homes that this reads, and the last instruction that wants it.
type wanted struct {
	value kernels.Value
	homes []kernels.Value
	until int32
}

// wanted returns what late instructions read of what is dropped.
func (r *remat) wanted(x *round) []wanted {
	last := make(map[kernels.Value]int32)
	var found []wanted
	for i := range r.c.Instrs {
		for _, v := range r.c.Instrs[i].In {
			if !early(&r.c.Instrs[i]) && r.drops(x, v) {
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
		if !early(in) || len(found) == 0 {
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

// measure fills in the peak and the extra work of x, whose rounds begin at r.
func (r *remat) measure(x *choice) {
	d := r.c.copied()
	x.work = r.apply(d, x.rounds).extra
	_, x.peak = d.lived()
}

// lived returns how many bytes live at each instruction, and the most of these. It gives values their places in others.
func (c *compiler) lived() (live []int64, peak int64) {
	c.alias()
	if c.Off&InPlace == 0 {
		c.inPlace()
	}
	live = make([]int64, len(c.Instrs)+1)
	for _, b := range c.lifetimes().buffers {
		live[b.Start] += arena.Round(b.Size)
		live[b.End] -= arena.Round(b.Size)
	}
	for i := range live {
		if i > 0 {
			live[i] += live[i-1]
		}
		peak = max(peak, live[i])
	}
	return live, peak
}

// copied returns a copy of c of which instructions and values may be changed.
func (c *compiler) copied() *compiler {
	d, p := *c, *c.Program
	p.Instrs, p.Values = slices.Clone(p.Instrs), slices.Clone(p.Values)
	b := *c.Builder
	b.Program, d.Builder = &p, &b
	return &d
}
