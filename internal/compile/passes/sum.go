package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Sums lets a product of the backward pass accumulate into the value that it is added to, so that
// no second buffer of the gradient's size is live: the sum of earlier steps of a window, or what
// another reader of the same weight contributes.
//
//	dw = matmul aᵀ dz              sum = matmul{Add} aᵀ dz before
//	sum = add before dw     ──►
//
// The product must have no other reader and no epilogue. The sum keeps its home. If both addends
// are products, the later one accumulates into the earlier one. This pass changes bits: it adds the
// same terms in another order.
func Sums(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	for i := range p.Instrs {
		add := &p.Instrs[i]
		if add.Op != kernels.Add || !add.Backward {
			continue
		}
		k, ok := u.product(add)
		if !ok {
			continue
		}
		at, before := u.maker[add.In[k]], add.In[1-k]
		product := p.Instrs[at]
		a := product.Attrs.(kernels.MatMulAttrs)
		a.Add = true
		product.Attrs, product.In = a, append(slices.Clone(product.In), before)
		product.Out, product.Label, product.Owner = add.Out, add.Label, add.Owner
		if u.maker[before] < at {
			gone[i] = true // the sum is made where the product was
		} else {
			at, gone[at] = int32(i), true // the other addend is made later
		}
		p.Instrs[at] = product
		u.maker[product.Out[0]] = at
	}
	remove(p, gone)
}

// product returns the index of the operand of an addition that is a product without another reader;
// if both are, that of the later one.
func (u uses) product(add *ir.Instr) (k int, ok bool) {
	last := int32(-1)
	for i, v := range add.In {
		if !u.private(v) || v == add.In[1-i] || !u.p.Spec(add.In[1-i]).Equal(u.p.Spec(v)) {
			continue
		}
		at := u.maker[v]
		in := &u.p.Instrs[at]
		a, is := in.Attrs.(kernels.MatMulAttrs)
		if is && in.Op == kernels.MatMul && !a.Bias && !a.Add && a.Act == nil && at > last {
			k, ok, last = i, true, at
		}
	}
	return k, ok
}
