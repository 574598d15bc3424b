package passes

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// An update of offloaded values is cut into parts, each of which is copied, changed and written
// back on its own. If the optimizer treats each element (or each block of kernels.Block8) alone, a
// part is a range of elements; for any other optimizer the update is one part, and so is one whose
// result is read, as ranks that share parameters do.
const (
	leastPart = 256 << 10 // bytes of a part: shorter transfers take longer to begin than to run
	// mostParts is the most parts of an update. With 16, the two that are in scratch at once are an
	// eighth of the values that it changes; smaller updates have fewer parts.
	mostParts = 16
	// mostPartsAll is the most parts of all updates of one parameter, if its gradient is sliced
	// (see Slices): the time to schedule a program grows faster than their number.
	mostPartsAll = 32
	partStep     = kernels.Block8 // all parts but the last have a multiple of these elements: whole blocks, and cache lines
)

// Offload lets a program work on copies of the values whose homes are in pinned host memory. All
// readers of a parameter share one copy; package remat later lets the backward pass prefetch a
// second one. An update works part by part, on a copy of each part of the values that it changes.
//
//	y = f x w                    w' = prefetch w
//	…                            y = f x w'
//	w, m = update w m dw   ──►   …
//	                             for each part:
//	                                 w', m' = prefetch w, m
//	                                 w', m' = update w' m' dw
//	                                 writeback w', m' to w, m
//
// The scheduler decides where transfers stand. Rows that pass Slices cut from an offloaded
// parameter stay views of host memory: only their update copies them. updates are the operations of
// optimizers; where views is false, an update is not cut. Offload changes nothing where no home is
// in host memory.
func Offload(p *ir.Program, updates []*kernels.Op, views bool) {
	o := offloader{Builder: ir.NewBuilder(p, nil), views: views,
		offloaded: make(map[kernels.Value]bool), copies: make(map[kernels.Value]kernels.Value),
		reads: usesOf(p).readCount, renamed: make(map[kernels.Value]kernels.Value), whole: make(map[kernels.Value]int)}
	for v, val := range p.Values {
		if val.Home && slices.Contains(ir.Offloaded[:], val.Ref.Region) {
			o.offloaded[kernels.Value(v)] = true
		}
	}
	if len(o.offloaded) == 0 {
		return
	}
	instrs, changed := p.Instrs, updatedBy(p, updates)
	p.Instrs = make([]ir.Instr, 0, len(instrs))
	for _, in := range instrs {
		switch {
		case in.Op.View != nil && o.offloaded[in.In[0]] && changed[in.Out[0]]: // rows for an update
			o.offloaded[in.Out[0]] = true
			o.whole[in.Out[0]] = o.Spec(in.In[0]).Shape.Elems()
			p.Instrs = append(p.Instrs, in)
		case slices.Contains(updates, in.Op):
			o.updateParts(in)
		default:
			o.readCopies(&in, nil)
			p.Instrs = append(p.Instrs, in)
		}
	}
}

// updatedBy returns the values that instructions of ops change.
func updatedBy(p *ir.Program, ops []*kernels.Op) map[kernels.Value]bool {
	found := make(map[kernels.Value]bool)
	for i := range p.Instrs {
		if in := &p.Instrs[i]; slices.Contains(ops, in.Op) {
			for _, k := range in.Op.UpdatesFor(in.Attrs) {
				found[in.In[k]] = true
			}
		}
	}
	return found
}

// offloader is the state of the pass.
type offloader struct {
	*ir.Builder
	views     bool
	offloaded map[kernels.Value]bool          // values in host memory: homes, and rows of them that updates change
	copies    map[kernels.Value]kernels.Value // by home
	reads     []int32                         // by value: operands that are it, before the pass
	renamed   map[kernels.Value]kernels.Value // results of updates that were replaced; key: the former one
	whole     map[kernels.Value]int           // key: a value that is some rows of a home; entry: elements of the whole home
}

// readCopies lets an instruction read copies of offloaded values, without the operands in except.
func (o *offloader) readCopies(in *ir.Instr, except []int8) {
	in.In = slices.Clone(in.In)
	for k, v := range in.In {
		if new, ok := o.renamed[v]; ok {
			in.In[k], v = new, new
		}
		if !o.offloaded[v] || slices.Contains(except, int8(k)) {
			continue
		}
		if _, ok := o.copies[v]; !ok {
			o.Label, o.Owner, o.Backward = "prefetch "+o.Values[v].Name, o.Values[v].Owner, in.Backward
			o.copies[v] = o.Apply(kernels.Prefetch, nil, v)
		}
		in.In[k] = o.copies[v]
	}
}

// updateParts appends an update: where it changes offloaded values, its parts with their transfers.
func (o *offloader) updateParts(in ir.Instr) {
	updates := in.Op.UpdatesFor(in.Attrs)
	moved := slices.DeleteFunc(slices.Clone(updates), func(k int8) bool { return !o.offloaded[in.In[k]] })
	o.readCopies(&in, moved)
	if len(moved) == 0 {
		o.Instrs = append(o.Instrs, in)
		return
	}
	o.Owner, o.Backward = in.Owner, true
	o.Needed = slices.DeleteFunc(o.Needed, func(v kernels.Value) bool { return slices.Contains(in.Out, v) })
	name := strings.TrimPrefix(in.Label, "update ")
	for _, homes := range o.parts(&in, moved) {
		operands := slices.Clone(homes)
		o.Label = "prefetch " + name
		for _, k := range moved {
			operands[k] = o.Apply(kernels.Prefetch, nil, homes[k])
		}
		o.Label = in.Label
		out := slices.Clone(o.ApplyAll(in.Op, in.Attrs, operands...))
		o.Label = "writeback " + name
		for i, k := range updates {
			if slices.Contains(moved, k) {
				out[i] = o.Apply(kernels.Writeback, nil, out[i], homes[k])
			}
		}
		for i, v := range in.Out {
			o.renamed[v] = out[i]
		}
		o.Needed = append(o.Needed, out...)
	}
}

// parts returns the operands of each part of an update that changes the moved operands in host
// memory.
func (o *offloader) parts(in *ir.Instr, moved []int8) [][]kernels.Value {
	var bytes int64
	for _, k := range moved {
		bytes += o.Spec(in.In[k]).Bytes()
	}
	param := o.Spec(in.In[0]).Shape
	elems := param.Elems()
	n := int(min(bytes/leastPart, mostParts, int64(elems/partStep)))
	if whole := o.whole[in.In[0]]; whole > 0 {
		n = min(n, max(1, mostPartsAll*elems/whole))
	}
	if n < 2 || !o.views || in.Op.Block == 0 || o.reads[in.Out[0]] > 0 {
		return [][]kernels.Value{in.In}
	}
	o.Label = in.Label
	flat := slices.Clone(in.In)
	cut := append(slices.Clone(in.Op.UpdatesFor(in.Attrs)), 1) // and the gradient
	for _, k := range cut {
		// States of another shape (Adam8's) have one row for each kernels.Block8 elements of the
		// parameter.
		if o.Spec(in.In[k]).Shape.Equal(param) {
			flat[k] = o.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{elems}}, in.In[k])
		}
	}
	parts := make([][]kernels.Value, n)
	for i := range parts {
		parts[i] = slices.Clone(flat)
		from, to := partStart(elems, partStep, n, i), partStart(elems, partStep, n, i+1)
		for _, k := range cut {
			if flat[k] != in.In[k] {
				parts[i][k] = rowsOf(o.Builder, flat[k], from, to)
			} else {
				parts[i][k] = rowsOf(o.Builder, flat[k], from/kernels.Block8, (to+kernels.Block8-1)/kernels.Block8)
			}
		}
	}
	return parts
}
