package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Precision selects what is computed and kept in 16 bits: factors of products, and activations that
// wait for the backward pass.
type Precision struct {
	Type    arena.DType // Bfloat16 or Float16; any other type: nothing
	Float32 []string    // layers and scopes that stay in float32
}

// Round rounds the factors of float32 products and convolutions to 16 bits. It runs before
// gradients are built, whose rules take the type over to the products of the backward pass. Sums
// and all other operations stay in float32.
func Round(p *ir.Program, want Precision) {
	if !want.Type.Half() {
		return
	}
	for i := range p.Instrs {
		if in := &p.Instrs[i]; p.Spec(in.Out[0]).Type == arena.Float32 && !ir.Selects(want.Float32, in.Owner) {
			in.Attrs = kernels.WithComputeType(in.Attrs, want.Type)
		}
	}
}

// Narrow keeps activations in 16 bits from the forward pass to the backward pass. A product whose
// factors are rounded anyway reads the 16 bits; for other instructions of the backward pass they
// are decoded right before the first of them.
//
//	y = f x               y = f x
//	z = y·w               h = encode y
//	…              ──►    z = h·w
//	dw = yᵀ·dz            …
//	dx = g y dy           dw = hᵀ·dz
//	                      y' = decode h
//	                      dx = g y' dy
//
// The last such activation stays in float32: the backward pass begins with it, so it would be
// decoded at once. Values that the backward pass needs exactly stay, too: see exact. This pass
// changes bits.
func Narrow(p *ir.Program, want Precision) {
	if !want.Type.Half() {
		return
	}
	n := &narrower{Builder: ir.NewBuilder(p, nil), want: want, uses: usesOf(p), instrs: p.Instrs,
		half: make(map[kernels.Value]kernels.Value), wide: make(map[kernels.Value]kernels.Value)}
	kept := n.kept()
	if len(kept) < 2 {
		return
	}
	for _, v := range kept[:len(kept)-1] {
		n.half[v] = kernels.None
	}
	p.Instrs = make([]ir.Instr, 0, len(n.instrs)+2*len(kept))
	for _, in := range n.instrs {
		in.In = slices.Clone(in.In)
		for k, v := range in.In {
			if _, ok := n.half[n.unreshaped(v)]; !ok {
				continue
			}
			switch {
			case k < 2 && kernels.ComputeTypeOf(in.Attrs) == want.Type:
				in.In[k] = n.encoded(v)
			case in.Backward:
				in.In[k] = n.decoded(v)
			}
		}
		p.Instrs = append(p.Instrs, in)
		for _, o := range in.Out {
			if _, ok := n.half[o]; ok {
				n.half[o] = n.apply(false, o, "encoded", kernels.Encode, kernels.EncodeAttrs{To: want.Type}, o)
			}
		}
	}
}

// narrower is the state of the pass.
type narrower struct {
	*ir.Builder
	want   Precision
	uses   uses
	instrs []ir.Instr                      // before the pass
	half   map[kernels.Value]kernels.Value // 16 bits of narrowed activations and of their reshapes; None: not made yet
	wide   map[kernels.Value]kernels.Value // the same, decoded for the backward pass
}

// apply appends an instruction that belongs to activation v.
func (n *narrower) apply(backward bool, v kernels.Value, suffix string, op *kernels.Op, attrs any,
	in kernels.Value) kernels.Value {
	val := n.Values[v]
	n.Label, n.Owner, n.Backward = val.Name+" "+suffix, val.Owner, backward
	return n.Apply(op, attrs, in)
}

// encoded returns v, a narrowed activation or a reshape of one, in 16 bits.
func (n *narrower) encoded(v kernels.Value) kernels.Value {
	if h, ok := n.half[v]; ok {
		return h
	}
	view := n.instrs[n.uses.maker[v]]
	n.half[v] = n.apply(false, v, "encoded", view.Op, view.Attrs, n.encoded(view.In[0]))
	return n.half[v]
}

// decoded returns v, a narrowed activation or a reshape of one, in float32 for the backward pass.
func (n *narrower) decoded(v kernels.Value) kernels.Value {
	if w, ok := n.wide[v]; ok {
		return w
	}
	if view := n.instrs[n.uses.maker[v]]; n.unreshaped(v) != v {
		n.wide[v] = n.apply(true, v, "decoded", view.Op, view.Attrs, n.decoded(view.In[0]))
	} else {
		a := kernels.DecodeAttrs{To: arena.Float32, Scale: 1}
		n.wide[v] = n.apply(true, v, "decoded", kernels.Decode, a, n.half[v])
	}
	return n.wide[v]
}

// unreshaped follows reshapes of the forward pass from v back to their operand.
func (n *narrower) unreshaped(v kernels.Value) kernels.Value {
	for {
		at := n.uses.maker[v]
		if at < 0 || n.instrs[at].Op != kernels.Reshape || n.instrs[at].Backward || n.Values[v].Home {
			return v
		}
		v = n.instrs[at].In[0]
	}
}

// kept returns the values that may wait in 16 bits, in the order in which they are made: float32
// values of scratch, of two dimensions or more, that the forward pass makes and the backward pass
// reads, without those that it needs exactly. Inputs are not among them: a field waits in its
// storage type and is decoded again for each reader (Redecode), and rows that were gathered from
// resident data wait as they are.
//
// Invariant: the batch size decides nothing, so that a smaller batch has the same instructions.
func (n *narrower) kept() []kernels.Value {
	exact := n.exact()
	read := make([]bool, len(n.Values)) // by the backward pass
	for i := range n.instrs {
		if in := &n.instrs[i]; in.Backward {
			for _, v := range in.In {
				read[n.unreshaped(v)] = true
			}
		}
	}
	var kept []kernels.Value
	for i := range n.instrs {
		in := &n.instrs[i]
		if in.Backward || in.Op == kernels.Decode || in.Op == kernels.Reshape ||
			in.Op == kernels.Gather && n.Values[in.In[0]].Ref.Region == ir.Resident {
			continue
		}
		for _, v := range in.Out {
			val := &n.Values[v]
			if read[v] && !exact[v] && !val.Home && val.Spec.Type == arena.Float32 && len(val.Spec.Shape) > 1 &&
				!ir.Selects(n.want.Float32, val.Owner) {
				kept = append(kept, v)
			}
		}
	}
	return kept
}

// exact reports for each value, by its index, whether the backward pass needs it in float32:
// probabilities, logits, statistics of norms, operands of comparisons and of instructions with an
// effect, and all that layers in Precision.Float32 read. If a result of an operation that only
// moves elements is exact, so is its operand.
func (n *narrower) exact() []bool {
	exact := make([]bool, len(n.Values))
	for i := len(n.instrs) - 1; i >= 0; i-- {
		in := &n.instrs[i]
		if !in.Backward {
			continue
		}
		whole := ir.Selects(n.want.Float32, in.Owner)
		for k, v := range in.In {
			if whole || exactOperand(in, k) || movesOnly(in.Op) && exact[in.Out[0]] {
				exact[v], exact[n.unreshaped(v)] = true, true
			}
		}
	}
	return exact
}

// movesOnly reports whether op copies elements as they are.
func movesOnly(op *kernels.Op) bool {
	switch op {
	case kernels.Reshape, kernels.Broadcast, kernels.Transpose, kernels.Slice, kernels.Concat:
		return true
	}
	return false
}

// exactOperand reports whether in needs its operand k in float32.
func exactOperand(in *ir.Instr, k int) bool {
	switch in.Op {
	case kernels.CrossEntropyGrad, kernels.CrossEntropyDenseGrad, kernels.SoftmaxGrad, kernels.LogSoftmaxGrad,
		kernels.Host:
		return true
	case kernels.BatchNormGrad, kernels.LayerNormGrad, kernels.GroupNormGrad:
		return k != 0 // the image itself may be rounded
	case kernels.Chain:
		return slices.ContainsFunc(in.Attrs.(*kernels.ChainAttrs).Steps,
			func(s kernels.Step) bool { return compares(s.Op) })
	}
	return len(in.Op.Updates) > 0 || compares(in.Op)
}

// compares reports whether op compares its operands.
func compares(op *kernels.Op) bool {
	switch op {
	case kernels.Equal, kernels.NotEqual, kernels.Less, kernels.LessEqual, kernels.Greater, kernels.GreaterEqual:
		return true
	}
	return false
}
