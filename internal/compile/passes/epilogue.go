package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Fuse joins operations into one instruction, so that the values between them need no memory: first
// the epilogues of products and convolutions, then chains of elementwise operations. The arithmetic
// stays the same, step for step.
func Fuse(p *ir.Program) {
	epilogues(p)
	chains(p)
	Prune(p)
}

// epilogue is what a product or a convolution does to its result before it writes it: add a bias,
// then apply an activation.
type epilogue struct {
	bias     bool
	act      *kernels.Op
	actAttrs any
}

// epilogueOf returns the epilogue of in, and false where in can have none: it is no product and no
// convolution, or it accumulates (see Sums).
func epilogueOf(in *ir.Instr) (epilogue, bool) {
	switch a := in.Attrs.(type) {
	case kernels.MatMulAttrs:
		return epilogue{a.Bias, a.Act, a.ActAttrs}, in.Op == kernels.MatMul && !a.Add
	case kernels.ConvAttrs:
		return epilogue{a.Bias, a.Act, a.ActAttrs}, in.Op == kernels.Conv
	}
	return epilogue{}, false
}

// with returns attrs with e as their epilogue.
func (e epilogue) with(attrs any) any {
	switch a := attrs.(type) {
	case kernels.MatMulAttrs:
		a.Bias, a.Act, a.ActAttrs = e.bias, e.act, e.actAttrs
		return a
	case kernels.ConvAttrs:
		a.Bias, a.Act, a.ActAttrs = e.bias, e.act, e.actAttrs
		return a
	}
	return attrs
}

// epilogues moves a bias, and then an activation, into the product or convolution before it.
//
//	y = matmul x w            z = matmul{Bias, Act: relu} x w b
//	s = add y b        ──►
//	z = relu s
func epilogues(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	flat := make(map[int]ir.Instr) // by index: the reshape of a bias to insert before that instruction
	for i := range p.Instrs {
		product := &p.Instrs[i]
		if _, ok := epilogueOf(product); !ok {
			continue
		}
		for j := u.next(product.Out[0]); j >= 0; j = u.next(product.Out[0]) {
			if !u.absorb(product, &p.Instrs[j]) {
				break
			}
			if k := len(product.In) - 1; k == 2 && len(p.Spec(product.In[k]).Shape) > 1 { // a bias [1, N]
				flat[j] = flatten(p, product, k)
			}
			// The product moves to the position of its reader: the bias is made before that, but
			// perhaps after the product. Invariant: product is the instruction at i.
			p.Instrs[j], gone[i] = *product, true
			u.maker[product.Out[0]] = int32(j)
			product, i = &p.Instrs[j], j
		}
	}
	if len(flat) == 0 {
		remove(p, gone)
		return
	}
	var kept []ir.Instr
	for i, in := range p.Instrs {
		if f, ok := flat[i]; ok {
			kept = append(kept, f)
		}
		if !gone[i] {
			kept = append(kept, in)
		}
	}
	p.Instrs = kept
}

// flatten makes operand k of in a vector, and returns the reshape that does so.
func flatten(p *ir.Program, in *ir.Instr, k int) ir.Instr {
	from := p.Values[in.In[k]]
	spec := kernels.Spec{Type: from.Spec.Type, Shape: kernels.Shape{from.Spec.Shape.Elems()}}
	v := p.Add(ir.Value{Name: from.Name, Owner: from.Owner, Spec: spec, Of: kernels.None})
	view := ir.Instr{Op: kernels.Reshape, Attrs: kernels.ReshapeAttrs{Shape: spec.Shape}, In: []kernels.Value{in.In[k]},
		Out: []kernels.Value{v}, Label: from.Name, Owner: from.Owner}
	in.In[k] = v
	return view
}

// absorb makes next part of the epilogue of product, and reports whether it could.
func (u uses) absorb(product, next *ir.Instr) bool {
	e, _ := epilogueOf(product)
	if !u.p.Spec(next.Out[0]).Equal(u.p.Spec(product.Out[0])) || e.act != nil {
		return false
	}
	switch next.Op {
	case kernels.Add:
		bias, ok := u.bias(product, next)
		if !ok || e.bias {
			return false
		}
		e.bias = true
		product.In = append(slices.Clone(product.In), bias)
	case kernels.ReLU, kernels.LeakyReLU, kernels.Sigmoid, kernels.Tanh:
		e.act, e.actAttrs = next.Op, next.Attrs
	default:
		return false
	}
	product.Attrs, product.Out = e.with(product.Attrs), next.Out
	product.Label = next.Label
	return true
}

// bias returns the value that add adds to each row of a product [M, N], of shape [N] or [1, N], or
// to each channel of a convolution's result [B, O, OH, OW], of shape [O, 1, 1] or [1, O, 1, 1].
func (u uses) bias(product, add *ir.Instr) (v kernels.Value, ok bool) {
	y := product.Out[0]
	v = add.In[0]
	if v == y {
		v = add.In[1]
	}
	all, row := u.p.Spec(y).Shape, u.p.Spec(v).Shape
	if len(row) == len(all) && row[0] == 1 {
		row = row[1:]
	}
	switch {
	case v == y, product.Op == kernels.MatMul && len(all) != 2,
		len(row) != len(all)-1, row[0] != all[1], row.Elems() != row[0]:
		return kernels.None, false
	case u.p.Values[v].Home && u.p.Values[v].Ref == u.p.Values[add.Out[0]].Ref: // the sum overwrites the bias
		return kernels.None, false
	}
	return v, true
}
