package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Rows of a slice of a gradient.
const (
	sliceRows = 128 // at least: a product of fewer packs its operands too often
	sliceStep = 16  // a multiple of this but for the last slice, so that slices start at cache lines
)

// A sliceable is a gradient that the lean way may make, check and apply in slices of its rows.
//
//	dw = aᵀ·dz │ check dw │ update w        becomes, for each slice,        dw[r0:r1] │ check │ update w[r0:r1]
//
// Its update works on views of parameter and states, so that a rule of an optimizer needs to know nothing about it.
type sliceable struct {
	trained               int // index of the parameter in Trained
	product, check, apply int // instructions
	rows                  int // of the gradient
	row                   int64
}

// slices cuts large gradients of the lean way into slices, so that a gradient is never in memory as a whole. There are as few as
// keep the peak where the rest of the step, or the least slice of another gradient, has it anyway. A program for another batch
// takes them over, so that it stays like this one.
func (c *compiler) slices() {
	if !c.Update.Lean || c.Off&(Views|Slices) != 0 {
		return
	}
	found := c.sliceables()
	if len(found) == 0 {
		return
	}
	if c.Like != nil {
		counts := make([]int, len(found))
		for i, f := range found {
			if f.trained < len(c.Like.Slices) {
				counts[i] = c.Like.Slices[f.trained]
			}
		}
		c.cutAll(found, counts)
		return
	}
	whole := c.rehearse()
	instrs, values, roots := slices.Clone(c.Instrs), slices.Clone(c.Values), slices.Clone(c.Roots)
	c.cutAll(found, c.counts(found, whole))
	if c.rehearse().most() >= whole.most() {
		c.Instrs, c.Values, c.Roots, c.Slices = instrs, values, roots, nil
	}
}

// sliceables returns the gradients that products make, that only their check and the update right after it read, that have rows for
// two slices, and whose update changes nothing but such rows, in the order of their updates.
func (c *compiler) sliceables() []sliceable {
	u := c.uses()
	var found []sliceable
	for i := 1; i < len(c.Instrs); i++ {
		check, apply := &c.Instrs[i-1], &c.Instrs[i]
		if apply.Op != c.Update.Op || check.Op != kernels.CheckFinite || len(apply.In) < 4 || check.In[0] != apply.In[1] || check.Out[0] != apply.In[2] {
			continue
		}
		g := apply.In[1]
		if u.maker[g] < 0 || u.readers[g] != 2 || u.root[g] || c.Values[g].Home || slices.ContainsFunc(apply.In[3:], func(v kernels.Value) bool { return !c.Values[v].Home }) {
			continue
		}
		product, s := &c.Instrs[u.maker[g]], c.Spec(g)
		if a, ok := product.Attrs.(kernels.MatMulAttrs); !ok || product.Op != kernels.MatMul || a.Rows != [2]int{} || a.Add || len(s.Shape) != 2 || s.Shape[0] < 2*sliceRows || !c.byRows(apply) {
			continue
		}
		found = append(found, sliceable{
			trained: int(check.Attrs.(kernels.CheckFiniteAttrs).Code - ir.FirstGradient),
			product: int(u.maker[g]), check: i - 1, apply: i,
			rows: s.Shape[0], row: s.Bytes() / int64(s.Shape[0]),
		})
	}
	return found
}

// byRows reports whether all that an update changes has the shape of its parameter, and so the same rows.
func (c *compiler) byRows(apply *ir.Instr) bool {
	s := c.Spec(apply.In[0])
	return !slices.ContainsFunc(kernels.UpdatesOf(apply.Op, apply.Attrs), func(k int8) bool { return !c.Spec(apply.In[k]).Shape.Equal(s.Shape) })
}

// rehearse returns a copy of c as it will be when it is placed, without slices.
func (c *compiler) rehearse() *compiler {
	d := c.copied()
	d.Like = nil
	d.alias()
	return d.in(d.candidates()[0].order)
}

// most returns the most bytes of scratch that are live at once.
func (c *compiler) most() int64 {
	bytes, _ := arena.Bound(arena.Problem{Buffers: c.lifetimes().buffers})
	return bytes
}

// counts returns the number of slices of each gradient, 0 where it stays whole. whole is c as it would be without slices.
func (c *compiler) counts(found []sliceable, whole *compiler) []int {
	live := make([]int64, len(whole.Instrs)) // at each instruction, without these gradients
	beside := make([]int64, len(found))      // the most that lives beside each gradient
	l := whole.lifetimes()
	at := make([]int, len(found)) // its buffer
	products := make(map[kernels.Value]int)
	for i, f := range found {
		products[c.Instrs[f.product].Out[0]] = i
	}
	for b, buffer := range l.buffers {
		if i, ok := products[l.value[b]]; ok {
			at[i] = b
			continue
		}
		for t := buffer.Start; t < buffer.End; t++ {
			live[t] += arena.Round(buffer.Size)
		}
	}
	target := slices.Max(live)
	for i, f := range found {
		g := l.buffers[at[i]]
		beside[i] = slices.Max(live[g.Start:g.End])
		target = max(target, beside[i]+arena.Round(int64(mostRows(f.rows, f.rows/sliceRows))*f.row))
	}
	counts := make([]int, len(found))
	for i, f := range found {
		for n := 2; beside[i]+arena.Round(int64(mostRows(f.rows, max(1, counts[i])))*f.row) > target && n <= f.rows/sliceRows; n++ {
			counts[i] = n
		}
	}
	return counts
}

// sliceStart returns where slice k of n begins, for k = n where the last one ends.
func sliceStart(rows, n, k int) int { return partStart(rows, sliceStep, n, k) }

// partStart returns where part k of n parts of so many begins, for k = n where the last one ends. Whole steps are spread evenly, the larger parts first;
// the last part has what is left of a step too.
func partStart(many, step, n, k int) int {
	if k == n {
		return many
	}
	steps := many / step
	return (k*(steps/n) + min(k, steps%n)) * step
}

// mostRows returns the rows of the largest of n slices.
func mostRows(rows, n int) int { return max(sliceStart(rows, n, 1), rows-sliceStart(rows, n, n-1)) }

// cutAll cuts each gradient into so many slices, but for those of 0.
func (c *compiler) cutAll(found []sliceable, counts []int) {
	whole := make(map[kernels.Value]bool)
	for i := len(found) - 1; i >= 0; i-- { // from behind: what is in front stays where it is
		if counts[i] > 0 {
			whole[c.Instrs[found[i].product].Out[0]] = true
			c.cut(found[i], counts[i])
		}
	}
	gone := make([]bool, len(c.Instrs))
	for i, in := range c.Instrs {
		gone[i] = len(in.Out) > 0 && whole[in.Out[0]]
	}
	c.drop(gone)
}

// cut makes n slices of a gradient. They stand where its update was; the last check makes what the only one made.
func (c *compiler) cut(f sliceable, n int) {
	if c.Slices == nil {
		c.Slices = make([]int, len(c.Trained))
	}
	c.Slices[f.trained] = n
	product, check, apply := c.Instrs[f.product], c.Instrs[f.check], c.Instrs[f.apply]
	rest := slices.Clone(c.Instrs[f.apply+1:])
	c.Instrs = c.Instrs[:f.check]
	c.Roots = slices.DeleteFunc(c.Roots, func(v kernels.Value) bool { return slices.Contains(apply.Out, v) })
	guard, last := check.In[1], kernels.None
	for k := range n {
		r, end := sliceStart(f.rows, n, k), sliceStart(f.rows, n, k+1)
		a := product.Attrs.(kernels.MatMulAttrs)
		a.Rows = [2]int{r, end}
		c.Label, c.Owner, c.Mark = "d"+c.Trained[f.trained], product.Owner, product.Mark
		slice := c.Apply(kernels.MatMul, a, product.In...)
		if last != kernels.None {
			c.follows[slice] = last
		}
		c.Label, c.Owner = check.Label, check.Owner
		guard = c.Apply(kernels.CheckFinite, check.Attrs, slice, guard)
		if end == f.rows {
			guard = check.Out[0]
			c.Instrs[len(c.Instrs)-1].Out[0] = guard
		}
		c.Label, c.Owner = apply.Label, apply.Owner
		in := slices.Clone(apply.In)
		in[1], in[2] = slice, guard
		for _, k := range kernels.UpdatesOf(apply.Op, apply.Attrs) {
			in[k] = c.rowsOf(in[k], r, end)
		}
		updated := c.ApplyAll(apply.Op, apply.Attrs, in...)
		c.Roots, last = append(c.Roots, updated...), updated[0]
	}
	c.Instrs = append(c.Instrs, rest...)
}

// rowsOf appends a view of rows r to end of v.
func (c *compiler) rowsOf(v kernels.Value, r, end int) kernels.Value {
	s := c.Spec(v).Shape
	a := kernels.SliceAttrs{Start: make([]int, len(s)), End: slices.Clone(s), Step: slices.Repeat([]int{1}, len(s))}
	a.Start[0], a.End[0] = r, end
	return c.Apply(kernels.Slice, a, v)
}
