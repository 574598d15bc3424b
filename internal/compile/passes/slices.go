package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Rows of a slice of a gradient.
const (
	sliceRows = 128 // at least: a product of fewer packs its operands too often
	sliceStep = 16  // all slices but the last have a multiple of these, so that slices start at cache lines
)

// Most slices. Each is three instructions and up to four views, and the time to schedule a program
// grows faster than their number; 1/32 of a gradient is small next to its parameter.
const (
	mostSlices    = 32  // of a gradient
	mostSlicesAll = 128 // of all gradients together
)

// Slices cuts large gradients, each of which is checked right before its update, into slices of
// rows, so that a gradient is never in memory as a whole. An update works on views of its parameter
// and states, so that no optimizer knows of slices.
//
//	dw = matmul aᵀ dz             for each slice r:
//	check dw               ──►        dw = matmul{Rows: r} aᵀ dz
//	update w dw                       check dw
//	                                  update w[r] dw
//
// It needs views, and an update that overwrites only operands of the parameter's shape. A gradient
// gets the fewest slices for which it does not set the peak: see sliceCounts. If all slices
// together do not lower the peak of a trial schedule, p stays as it is. Where o.Like is set, each
// gradient gets as many slices as in o.Like. updates are the operations of optimizers.
func Slices(p *ir.Program, updates []*kernels.Op, o schedule.Options) {
	found := sliceables(p, updates)
	if len(found) == 0 {
		return
	}
	if o.Like != nil {
		counts := make([]int, len(found))
		for i, f := range found {
			if f.trained < len(o.Like.Slices) {
				counts[i] = o.Like.Slices[f.trained]
			}
		}
		cutAll(p, found, counts)
		return
	}
	whole, cut := schedule.Trial(p, o), p.Clone()
	cut.Needed = slices.Clone(p.Needed)
	cutAll(cut, found, sliceCounts(p, found, whole, o.Device))
	if schedule.Peak(schedule.Trial(cut, o), o.Device) < schedule.Peak(whole, o.Device) {
		*p = *cut
	}
}

// sliceable is a gradient that can be made, checked and applied in slices of its rows.
type sliceable struct {
	trained               int // index of the parameter in Program.Trained
	product, check, apply int // instructions
	rows                  int
	rowBytes              int64
}

// sliceables returns the gradients that can be cut, in the order of their updates: a product makes
// them, only their check and the update right after it read them, they have rows for two slices,
// and their update changes nothing but rows.
func sliceables(p *ir.Program, updates []*kernels.Op) []sliceable {
	u := usesOf(p)
	var found []sliceable
	for i := 1; i < len(p.Instrs); i++ {
		// Operands of an update: parameter, gradient, status word, controls, then scale and states.
		// Of a check: gradient, status word.
		check, apply := &p.Instrs[i-1], &p.Instrs[i]
		if !slices.Contains(updates, apply.Op) || check.Op != kernels.CheckFinite || len(apply.In) < 4 ||
			check.In[0] != apply.In[1] || check.Out[0] != apply.In[2] {
			continue
		}
		g := apply.In[1]
		if u.maker[g] < 0 || u.readCount[g] != 2 || u.needed[g] || p.Values[g].Home ||
			slices.ContainsFunc(apply.In[3:], func(v kernels.Value) bool { return !p.Values[v].Home }) {
			continue
		}
		product, s := &p.Instrs[u.maker[g]], p.Spec(g)
		a, ok := product.Attrs.(kernels.MatMulAttrs)
		if !ok || product.Op != kernels.MatMul || a.Rows != [2]int{} || a.Add ||
			len(s.Shape) != 2 || s.Shape[0] < 2*sliceRows || !updatesRows(p, apply) {
			continue
		}
		found = append(found, sliceable{
			trained: int(check.Attrs.(kernels.CheckFiniteAttrs).Code - ir.FirstGradient),
			product: int(u.maker[g]), check: i - 1, apply: i,
			rows: s.Shape[0], rowBytes: s.Bytes() / int64(s.Shape[0]),
		})
	}
	return found
}

// updatesRows reports whether all that an update changes has the shape of its parameter, and so the
// same rows.
func updatesRows(p *ir.Program, apply *ir.Instr) bool {
	s := p.Spec(apply.In[0])
	return !slices.ContainsFunc(apply.Op.UpdatesFor(apply.Attrs),
		func(k int8) bool { return !p.Spec(apply.In[k]).Shape.Equal(s.Shape) })
}

// sliceCounts returns the number of slices of each gradient, 0 where it stays whole. whole is p
// ordered and aliased.
//
// The target is the lowest peak that slicing can reach: the larger of the peak without any of these
// gradients and the peak with one of them cut into its most slices. Each gradient gets the fewest
// slices with which it stays within the target.
//
//	100 MB without gradients; gradients of 40 and 8 MB while 90 MB are live
//	target 100 MB ─► 4 slices of 10 MB, and 0: the second one stays whole
//
// If this takes more than mostSlicesAll slices, the target is raised until it does not.
func sliceCounts(p *ir.Program, found []sliceable, whole *ir.Program, dev kernels.Device) []int {
	live := make([]int64, len(whole.Instrs)) // by instruction, without these gradients
	others := make([]int64, len(found))      // most bytes that are live while a gradient is, without these gradients
	l := schedule.LiveRanges(whole, dev)
	buffer := make([]int, len(found))
	products := make(map[kernels.Value]int)
	for i, f := range found {
		products[p.Instrs[f.product].Out[0]] = i
	}
	for b := range l.Buffers {
		if i, ok := products[l.Value[b]]; ok {
			buffer[i] = b
			continue
		}
		for t := l.Buffers[b].Start; t < l.Buffers[b].End; t++ {
			live[t] += arena.Round(l.Buffers[b].Size)
		}
	}
	target, highest := slices.Max(live), int64(0) // with highest, no gradient is cut
	for i := range found {
		g := l.Buffers[buffer[i]]
		others[i] = slices.Max(live[g.Start:g.End])
		target = max(target, others[i]+found[i].sliceBytes(found[i].mostSlices()))
		highest = max(highest, target, others[i]+found[i].sliceBytes(1))
	}
	counts := countsWithin(found, others, target)
	if sum(counts) <= mostSlicesAll {
		return counts
	}
	// Invariant: target needs too many slices, highest does not.
	for highest-target > arena.Align {
		middle := target + (highest-target)/2
		if sum(countsWithin(found, others, middle)) <= mostSlicesAll {
			highest = middle
		} else {
			target = middle
		}
	}
	return countsWithin(found, others, highest)
}

// countsWithin returns the fewest slices of each gradient with which it stays within target bytes,
// or the most that it can have; 0 where it stays whole. others is the bytes that are live with
// each.
func countsWithin(found []sliceable, others []int64, target int64) []int {
	counts := make([]int, len(found))
	for i := range found {
		f := &found[i]
		for n := 2; others[i]+f.sliceBytes(max(1, counts[i])) > target && n <= f.mostSlices(); n++ {
			counts[i] = n
		}
	}
	return counts
}

// sum returns the sum of all counts.
func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// mostSlices returns the most slices that the gradient may have.
func (f *sliceable) mostSlices() int { return min(f.rows/sliceRows, mostSlices) }

// sliceBytes returns the bytes of the largest of n slices.
func (f *sliceable) sliceBytes(n int) int64 {
	return arena.Round(int64(mostRows(f.rows, n)) * f.rowBytes)
}

// sliceStart returns the first row of slice k of n; for k = n, the end of the last one.
func sliceStart(rows, n, k int) int { return partStart(rows, sliceStep, n, k) }

// partStart returns the first element of part k of n parts of many elements; for k = n it returns
// many. Each part has a multiple of step elements, as equal as possible with larger parts first;
// the last part also has the remainder. For 100 elements in 3 parts of step 16: 0, 32, 64, 100.
func partStart(many, step, n, k int) int {
	if k == n {
		return many
	}
	steps := many / step
	return (k*(steps/n) + min(k, steps%n)) * step
}

// mostRows returns the rows of the largest of n slices.
func mostRows(rows, n int) int { return max(sliceStart(rows, n, 1), rows-sliceStart(rows, n, n-1)) }

// cutAll cuts each gradient into its number of slices, and leaves those of 0 whole.
func cutAll(p *ir.Program, found []sliceable, counts []int) {
	whole := make(map[kernels.Value]bool)
	for i := len(found) - 1; i >= 0; i-- { // from the end, so that the indices of earlier ones stay
		if counts[i] > 0 {
			whole[p.Instrs[found[i].product].Out[0]] = true
			cut(p, found[i], counts[i])
		}
	}
	gone := make([]bool, len(p.Instrs))
	for i, in := range p.Instrs {
		gone[i] = len(in.Out) > 0 && whole[in.Out[0]]
	}
	remove(p, gone)
}

// cut replaces the check and the update of a gradient by n slices, each made, checked and applied.
// The status word after the last check keeps its value number, so that later readers stay as they
// are.
func cut(p *ir.Program, f sliceable, n int) {
	if p.Slices == nil {
		p.Slices = make([]int, len(p.Trained))
	}
	if p.Follows == nil {
		p.Follows = make(map[kernels.Value]kernels.Value)
	}
	p.Slices[f.trained] = n
	product, check, apply := p.Instrs[f.product], p.Instrs[f.check], p.Instrs[f.apply]
	rest := slices.Clone(p.Instrs[f.apply+1:])
	p.Instrs = p.Instrs[:f.check]
	p.Needed = slices.DeleteFunc(p.Needed, func(v kernels.Value) bool { return slices.Contains(apply.Out, v) })
	b := ir.NewBuilder(p, nil)
	b.Backward = true
	guard, last := check.In[1], kernels.None
	for k := range n {
		r, end := sliceStart(f.rows, n, k), sliceStart(f.rows, n, k+1)
		a := product.Attrs.(kernels.MatMulAttrs)
		a.Rows = [2]int{r, end}
		b.Label, b.Owner, b.Mark = "d"+p.Trained[f.trained], product.Owner, product.Mark
		slice := b.Apply(kernels.MatMul, a, product.In...)
		if last != kernels.None {
			p.Follows[slice] = last
		}
		b.Label, b.Owner = check.Label, check.Owner
		guard = b.Apply(kernels.CheckFinite, check.Attrs, slice, guard)
		if end == f.rows {
			guard = check.Out[0]
			p.Instrs[len(p.Instrs)-1].Out[0] = guard
		}
		b.Label, b.Owner = apply.Label, apply.Owner
		in := slices.Clone(apply.In)
		in[1], in[2] = slice, guard
		for _, k := range apply.Op.UpdatesFor(apply.Attrs) {
			in[k] = rowsOf(b, in[k], r, end)
		}
		updated := b.ApplyAll(apply.Op, apply.Attrs, in...)
		p.Needed, last = append(p.Needed, updated...), updated[0]
	}
	p.Instrs = append(p.Instrs, rest...)
}

// rowsOf appends a view of rows r to end of v.
func rowsOf(b *ir.Builder, v kernels.Value, r, end int) kernels.Value {
	s := b.Spec(v).Shape
	a := kernels.SliceAttrs{Start: make([]int, len(s)), End: slices.Clone(s), Step: slices.Repeat([]int{1}, len(s))}
	a.Start[0], a.End[0] = r, end
	return b.Apply(kernels.Slice, a, v)
}
