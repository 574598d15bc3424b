package dataloader

// gate lets workers decode blocks ahead, and fetch samples of the groups of blocks that are decoded.
// The groups [low, low+window) are open: their blocks fit in memory together. The loader's mu guards
// it.
//
//	groups   done │ low: fetched │ low+1: decoded ahead │ closed …
type gate struct {
	order   *blockOrder
	cut     *cut
	window  int
	low     int // the first group with rows that are not finished
	head    int // the first group with blocks that no worker has begun to decode
	first   int // row of this rank with which the run starts, counted over all steps
	open    []openGroup
	loading int  // blocks that workers decode
	closing bool // a worker reports the blocks of group low as done
}

// openGroup is a group that is being decoded or fetched.
type openGroup struct {
	left     int   // rows that are not finished
	blocks   []int // to decode
	next     int   // block among them that is decoded next
	unloaded int   // blocks that are not decoded
}

// newGate returns the gate of a run that starts at a step.
func newGate(o *blockOrder, c *cut, step int) *gate {
	g := &gate{order: o, cut: c, window: max(1, o.plan.Held/o.each), first: min(step*c.batch, c.before(c.positions))}
	g.open = make([]openGroup, min(g.window, o.groups()))
	g.window = len(g.open)
	if step*c.global() < c.positions {
		position, _ := c.rows(step)
		g.low = o.groupOf(position)
	} else {
		g.low = o.groups()
	}
	for i := g.low; i < g.low+g.window; i++ {
		g.enter(i)
	}
	return g
}

// enter opens group i.
func (g *gate) enter(i int) {
	if i >= g.order.groups() {
		return
	}
	from, to := g.order.span(i)
	x := g.at(i)
	start, end := max(g.first, g.cut.before(from)), g.cut.before(to)
	*x = openGroup{left: max(0, end-start), blocks: x.blocks[:0]}
	if x.left == 0 {
		return
	}
	b, last := g.order.blocksOf(i)
	var needed []bool // by block; nil: all
	if start != g.cut.before(from) || to > g.cut.positions {
		needed = g.needed(i)
	}
	for k := b; k < last; k++ {
		if g.order.at[k] < g.order.at[k+1] && (needed == nil || needed[k-b]) {
			x.blocks = append(x.blocks, k)
		}
	}
	x.unloaded = len(x.blocks)
}

// needed returns which blocks of group i the run reads, of whose rows it does not read the first or
// the last.
func (g *gate) needed(i int) []bool {
	b, last := g.order.blocksOf(i)
	from, to := g.order.span(i)
	all := make([]bool, last-b)
	for position := from; position < min(to, g.cut.positions); position++ {
		if row := g.cut.before(position); row >= g.first && g.cut.before(position+1) > row {
			k, _ := g.order.locate(i, position)
			all[k-b] = true
		}
	}
	return all
}

// at returns group i, which is open.
func (g *gate) at(i int) *openGroup { return &g.open[i%g.window] }

// load returns a block to decode, of group low only if urgent is set.
func (g *gate) load(urgent bool) (group, block int, ok bool) {
	end := min(g.low+g.window, g.order.groups())
	if urgent {
		end = min(end, g.low+1)
	}
	for g.head = max(g.head, g.low); g.head < end; g.head++ {
		if x := g.at(g.head); x.next < len(x.blocks) {
			x.next++
			g.loading++
			return g.head, g.order.block(x.blocks[x.next-1]), true
		}
	}
	return 0, 0, false
}

// ready returns how many of the rows from a position on can be fetched now, and their group.
func (g *gate) ready(position, rows int) (n, group int) {
	group = g.order.groupOf(position)
	if group >= g.low+g.window || g.at(group).unloaded > 0 {
		return 0, group
	}
	_, end := g.order.span(group)
	return min(rows, end-position), group
}
