package passes

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Identity removes products with the constant 1 and quotients by it: their readers read the other
// operand. Gradients contain many of them, because the gradient of the loss is 1. It runs after
// Fold, which turns a broadcast 1 into a constant of the whole shape.
//
//	one = fill 1 [4, 5]           one = fill 1 [4, 5]
//	dx = mul one y         ──►    dz = tanh y
//	dz = tanh dx
//
// Prune removes the constant if nothing else reads it. x·1 and x/1 are x in every bit. An Affine
// with scale 1 and shift 0 is not: it turns -0 into +0.
//
// A product stays where its result has a home, where it repeats the operand to a larger shape, and
// where the operand lies in a home: then the product is a copy, and an update may change the home
// before the copy is read.
func Identity(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	same := unchanged(len(p.Values))
	ones := make(map[kernels.Value]bool)
	for i := range p.Instrs {
		in := &p.Instrs[i]
		substitute(in.In, same)
		if f, ok := in.Attrs.(kernels.FillAttrs); ok && f.Value == 1 {
			ones[in.Out[0]] = true
		}
		x := otherFactor(in, ones)
		if x == kernels.None || p.Values[in.Out[0]].Home || !u.ownsBytes(x) || !p.Spec(x).Equal(p.Spec(in.Out[0])) {
			continue
		}
		same[in.Out[0]], gone[i] = x, true
	}
	remove(p, gone)
	substitute(p.Needed, same)
	for i, r := range p.Results {
		p.Results[i].Value = same[r.Value]
	}
}

// otherFactor returns the operand that in multiplies by 1, or divides by 1; None for any other
// instruction.
func otherFactor(in *ir.Instr, ones map[kernels.Value]bool) kernels.Value {
	switch {
	case (in.Op == kernels.Mul || in.Op == kernels.Div) && ones[in.In[1]]:
		return in.In[0]
	case in.Op == kernels.Mul && ones[in.In[0]]:
		return in.In[1]
	}
	return kernels.None
}

// ownsBytes reports whether v certainly has bytes of its own in scratch, which no update changes: it
// has no home, and is neither a view nor the result of an update.
func (u uses) ownsBytes(v kernels.Value) bool {
	i := u.maker[v]
	if i < 0 || u.p.Values[v].Home {
		return false
	}
	op := u.p.Instrs[i].Op
	return op.View == nil && len(op.Updates) == 0
}
