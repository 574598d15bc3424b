package remat

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// apply rewrites p, which has the instructions of a, in rounds. There is at least one. The second
// round sees the repetitions of the first one as producers of activations:
//
//	made        x │ y = f x │ z = g y │ … │ dz = … z │ dy = … y
//	round 1     drops y and z: … │ y' = f x │ z' = g y' │ dz = … z' │ dy = … y'
//	round 2     drops y', which idles during dz: … │ z' = g y' │ dz = … z' │ y" = f x │ dy = … y"
func (a *analysis) apply(p *ir.Program, rounds []round) (now rewritten) {
	for k := range rounds {
		if k > 0 {
			a = analyseRewritten(p, a.o, now)
		}
		now = a.rewrite(p, &rounds[k])
	}
	return now
}

// rewrite rewrites p in one round: before each instruction that reads a dropped value it repeats
// the instructions that the value needs, each at most once, and lets the reader read the
// repetition's result.
func (a *analysis) rewrite(p *ir.Program, x *round) rewritten {
	r := rewriter{a: a, p: p, x: x, repetition: make(map[kernels.Value]kernels.Value), repeated: make([]bool, len(p.Instrs)),
		instrs: make([]ir.Instr, 0, 2*len(p.Instrs)),
		rewritten: rewritten{origin: slices.Clone(a.origin), work: make([]int64, 0, 2*len(p.Instrs)),
			space: make([]int64, 0, 2*len(p.Instrs)), extra: a.extra,
			positions: make([]int32, len(p.Instrs))}}
	needed := a.needed(x) // repetitions that may have to run before an update
	for i := range p.Instrs {
		in := p.Instrs[i]
		if !producesActivations(&in) {
			in.In = slices.Clone(in.In)
			for k, v := range in.In {
				if a.drops(x, v) {
					in.In[k] = r.recompute(v)
				}
			}
			for _, k := range in.Op.UpdatesFor(in.Attrs) {
				for _, n := range needed { // a repetition reads this home before the update changes it
					if n.until > int32(i) && slices.Contains(n.homes, a.root[p.Instrs[i].In[k]]) {
						r.recompute(n.value)
					}
				}
			}
		}
		r.positions[i] = int32(len(r.instrs))
		r.instrs, r.work, r.space = append(r.instrs, in), append(r.work, a.work[i]), append(r.space, a.space[i])
	}
	p.Instrs = r.instrs
	return r.rewritten
}

// rewriter is the state of rewrite.
type rewriter struct {
	rewritten
	a          *analysis
	p          *ir.Program
	x          *round
	repetition map[kernels.Value]kernels.Value // the second computation of a value
	repeated   []bool                          // by instruction
	instrs     []ir.Instr                      // so far
}

// recompute returns the second computation of v, which it appends if it does not exist yet.
func (r *rewriter) recompute(v kernels.Value) kernels.Value {
	for _, i := range r.a.toRepeat(r.x, v, r.repeated) {
		r.repeat(i)
	}
	return r.repetition[v]
}

// repeat appends instruction i once more, with results of its own.
func (r *rewriter) repeat(i int32) {
	in := r.p.Instrs[i]
	in.In, in.Out = slices.Clone(in.In), slices.Clone(in.Out)
	if !in.Recomputed {
		in.Backward, in.Recomputed, in.Label = true, true, in.Label+" again"
	}
	for k, w := range in.In {
		if !r.a.available(r.x, w) {
			in.In[k] = r.repetition[w]
		}
	}
	for k, o := range in.Out {
		val := r.p.Values[o]
		val.Of, val.Delta = kernels.None, 0
		in.Out[k] = r.p.Add(val)
		r.origin = append(r.origin, r.a.origin[o])
		r.repetition[o] = in.Out[k]
	}
	r.instrs, r.work, r.extra = append(r.instrs, in), append(r.work, r.a.work[i]), r.extra+r.a.work[i]
	r.space = append(r.space, r.a.space[i])
}

// toRepeat returns the instructions that are repeated for v, in their order, without those that are
// marked already, and marks them.
func (a *analysis) toRepeat(x *round, v kernels.Value, marked []bool) (all []int32) {
	var visit func(v kernels.Value)
	visit = func(v kernels.Value) {
		i := a.maker[v]
		if marked[i] {
			return
		}
		marked[i] = true
		all = append(all, i)
		for _, w := range a.p.Instrs[i].In {
			if !a.available(x, w) {
				visit(w)
			}
		}
	}
	visit(v)
	slices.Sort(all)
	return all
}

// need is a dropped value that the backward pass reads.
type need struct {
	value kernels.Value
	homes []kernels.Value // that computing it again reads
	until int32           // the last instruction that reads the value
}

// needed returns the dropped values that the backward pass reads.
//
// A repetition may read a home, such as a weight, that an update changes before the reader runs.
// Then the repetition has to run before that update, although its result is needed later:
//
//	y' = f w │ w = update w dw │ dx = g y' dy
func (a *analysis) needed(x *round) []need {
	last := make(map[kernels.Value]int32)
	var found []need
	for i := range a.p.Instrs {
		for _, v := range a.p.Instrs[i].In {
			if !producesActivations(&a.p.Instrs[i]) && a.drops(x, v) {
				if _, seen := last[v]; !seen {
					found = append(found, need{value: v})
				}
				last[v] = int32(i)
			}
		}
	}
	homes := make([][]kernels.Value, len(a.root)) // by value: homes that computing it again reads
	for i := range a.p.Instrs {
		in := &a.p.Instrs[i]
		if !producesActivations(in) || len(found) == 0 {
			continue
		}
		var reads []kernels.Value
		for _, v := range in.In {
			if a.p.Values[a.root[v]].Home {
				reads = append(reads, a.root[v])
			} else if !a.available(x, v) {
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
		n := &found[i]
		n.homes, n.until = homes[n.value], last[n.value]
	}
	return found
}
