package schedule

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Alias lets results share the bytes of operands: results of updates always, views where views is
// set.
func Alias(p *ir.Program, views bool) {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		for k, u := range in.Op.UpdatesFor(in.Attrs) {
			alias(p, in.Out[k], in.In[u])
		}
		if in.Op.View == nil || !views || p.Values[in.Out[0]].Home {
			continue
		}
		if delta, ok := in.Op.View(in.Attrs, p.Specs(in.In)); ok {
			p.Values[in.Out[0]].Of, p.Values[in.Out[0]].Delta = in.In[0], delta
		}
	}
}

// alias makes v an alias of w's root. The chain stays short that way: the status word passes
// through every check.
func alias(p *ir.Program, v, w kernels.Value) { p.Values[v].Of, p.Values[v].Delta = p.Root(w) }

// InPlace lets a result reuse the bytes of an operand that no later instruction reads. It goes by
// the order of p's instructions.
//
//	y = relu(x), the last reader of x        becomes        y aliases x
func InPlace(p *ir.Program) {
	// Invariant: last[root] is the last instruction that reads the root or any alias of it, also an
	// alias that this loop has made.
	last := LastUses(p)
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if len(in.Op.InPlace) == 0 || p.Values[in.Out[0]].Home || p.Values[in.Out[0]].Of != kernels.None {
			continue
		}
		for _, k := range in.Op.InPlaceFor(in.Attrs) {
			if int(k) >= len(in.In) || !reusable(p, i, int(k), last) {
				continue
			}
			alias(p, in.Out[0], in.In[k])
			root, _ := p.Root(in.In[k])
			last[root] = max(last[root], last[in.Out[0]])
			break
		}
	}
}

// reusable reports whether the output of instruction i may overwrite its operand k: nothing reads
// the operand's bytes later, the instruction reads them through no other operand, and the output
// fills them.
func reusable(p *ir.Program, i, k int, last []int32) bool {
	in := &p.Instrs[i]
	v := in.In[k]
	root, delta := p.Root(v)
	if p.Values[root].Home || last[root] != int32(i) || delta != 0 || !p.Spec(v).Equal(p.Spec(in.Out[0])) ||
		p.Spec(root).Bytes() != p.Spec(v).Bytes() {
		return false
	}
	for j, w := range in.In {
		if r, _ := p.Root(w); j != k && r == root {
			return false
		}
	}
	return true
}

// LastUses returns, by root value, the instruction that last makes or reads its bytes.
func LastUses(p *ir.Program) []int32 {
	last := make([]int32, len(p.Values))
	for i := range p.Instrs {
		for _, vs := range [2][]kernels.Value{p.Instrs[i].In, p.Instrs[i].Out} {
			for _, v := range vs {
				root, _ := p.Root(v)
				last[root] = int32(i)
			}
		}
	}
	return last
}
