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
// normalize by channel (a convolution only), then apply an activation.
type epilogue struct {
	bias     bool
	norm     bool
	act      *kernels.Op
	actAttrs any
}

// epilogueOf returns the epilogue of in, and false where in can have none: it is no product and no
// convolution, or it accumulates (see Sums).
func epilogueOf(in *ir.Instr) (epilogue, bool) {
	switch a := in.Attrs.(type) {
	case kernels.MatMulAttrs:
		return epilogue{bias: a.Bias, act: a.Act, actAttrs: a.ActAttrs}, in.Op == kernels.MatMul && !a.Add
	case kernels.ConvAttrs:
		return epilogue{a.Bias, a.Norm, a.Act, a.ActAttrs}, in.Op == kernels.Conv
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
		a.Bias, a.Norm, a.Act, a.ActAttrs = e.bias, e.norm, e.act, e.actAttrs
		return a
	}
	return attrs
}

// epilogues moves a bias, and then an activation, into the product or convolution before it; and
// between the two what normalizes the channels of a convolution.
//
//	y = matmul x w            z = matmul{Bias, Act: relu} x w b
//	s = add y b        ──►
//	z = relu s
//
//	y = conv x w              z = conv{Norm} x w mean scale shift
//	c = sub y mean
//	m = mul c scale    ──►
//	z = add m shift
func epilogues(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	flat := make(map[int][]ir.Instr) // by index: the reshapes of vectors to insert before that instruction
	for i := range p.Instrs {
		product := &p.Instrs[i]
		if _, ok := epilogueOf(product); !ok {
			continue
		}
		for j := u.next(product.Out[0]); j >= 0; j = u.next(product.Out[0]) {
			read := []int{j} // the instructions that become part of the epilogue
			if n := u.normalization(product, j); n != nil {
				u.absorbNorm(product, n)
				read = n
			} else if !u.absorb(product, &p.Instrs[j]) {
				break
			}
			j = read[len(read)-1]
			for k := 2; k < len(product.In); k++ {
				if len(p.Spec(product.In[k]).Shape) > 1 { // a vector [1, N] or [O, 1, 1]
					flat[j] = append(flat[j], flatten(p, product, k))
				}
			}
			// The product moves to the position of its last reader: vectors are made before that, but
			// perhaps after the product. Invariant: product is the instruction at i.
			for _, k := range read[:len(read)-1] {
				gone[k] = true
			}
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
		kept = append(kept, flat[i]...)
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
		bias, ok := u.vector(product, next, product.Out[0], next.Out[0])
		if !ok || e.bias || e.norm {
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

// normalization returns the indices of the three instructions, from index i on, that normalize the
// channels of a convolution and nothing else: (y - mean)·scale + shift. Nil: there are none.
func (u uses) normalization(conv *ir.Instr, i int) []int {
	e, _ := epilogueOf(conv)
	if conv.Op != kernels.Conv || e.norm || e.act != nil {
		return nil
	}
	var all []int
	y := conv.Out[0]
	for k, op := range []*kernels.Op{kernels.Sub, kernels.Mul, kernels.Add} {
		if k > 0 {
			i = u.next(y)
		}
		if i < 0 || u.p.Instrs[i].Op != op || op == kernels.Sub && u.p.Instrs[i].In[0] != y ||
			!u.p.Spec(u.p.Instrs[i].Out[0]).Equal(u.p.Spec(y)) {
			return nil
		}
		all = append(all, i)
		y = u.p.Instrs[i].Out[0]
	}
	if len(u.normVectors(conv, all)) < 3 {
		return nil
	}
	return all
}

// normVectors returns mean, scale and shift, those that vector finds.
func (u uses) normVectors(conv *ir.Instr, all []int) []kernels.Value {
	var found []kernels.Value
	y, out := conv.Out[0], u.p.Instrs[all[2]].Out[0]
	for _, i := range all {
		in := &u.p.Instrs[i]
		if v, ok := u.vector(conv, in, y, out); ok {
			found = append(found, v)
		}
		y = in.Out[0]
	}
	return found
}

// absorbNorm makes what normalization has found part of the epilogue of conv.
func (u uses) absorbNorm(conv *ir.Instr, all []int) {
	e, _ := epilogueOf(conv)
	e.norm = true
	last := &u.p.Instrs[all[2]]
	conv.In = append(slices.Clone(conv.In), u.normVectors(conv, all)...)
	conv.Attrs, conv.Out, conv.Label = e.with(conv.Attrs), last.Out, last.Label
}

// vector returns the other operand than y of an operation on y, where it is one number for each
// column of a product [M, N], of shape [N] or [1, N], or for each channel of a convolution's result
// [B, O, OH, OW], of shape [O, 1, 1] or [1, O, 1, 1]. The product is to write out.
func (u uses) vector(product, next *ir.Instr, y, out kernels.Value) (v kernels.Value, ok bool) {
	v = next.In[0]
	if v == y {
		v = next.In[1]
	}
	all, row := u.p.Spec(y).Shape, u.p.Spec(v).Shape
	if len(row) == len(all) && row[0] == 1 {
		row = row[1:]
	}
	switch {
	case v == y, product.Op == kernels.MatMul && len(all) != 2,
		len(row) != len(all)-1, row[0] != all[1], row.Elems() != row[0]:
		return kernels.None, false
	case u.p.Values[v].Home && u.p.Values[v].Ref == u.p.Values[out].Ref: // the result overwrites the vector
		return kernels.None, false
	}
	return v, true
}
