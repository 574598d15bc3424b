package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Precision says what is computed and kept in 16 bits: factors of products, and activations that wait for the backward pass.
type Precision struct {
	Type    arena.DType // Bfloat16 or Float16; any other type: nothing is
	Float32 []string    // layers of which nothing is
}

// round has the factors of the forward pass's products rounded; their gradients, which are products too, take it over. Sums, and all other
// operations, stay in float32.
func (c *compiler) round() {
	if !c.Precision.Type.Half() {
		return
	}
	for i := range c.Instrs {
		if in := &c.Instrs[i]; c.Spec(in.Out[0]).Type == arena.Float32 && !slices.Contains(c.Precision.Float32, in.Owner) {
			in.Attrs = kernels.WithOperands(in.Attrs, c.Precision.Type)
		}
	}
}

// narrow keeps activations in 16 bits from the forward pass to the backward one. A product whose factors are rounded anyway reads them as they
// are kept; for others they are decoded right before their first reader in the backward pass.
//
//	y = f(x) │ z = y·w │ … │ dw = yᵀ·dz │ dx = g(y, dy)        becomes        y = f(x) │ h = encode(y) │ z = h·w │ … │ dw = hᵀ·dz │ y' = decode(h) │ dx = g(y', dy)
//
// The last of these activations is read again at once and stays as it is.
func (c *compiler) narrow() {
	if c.Mode != Train || !c.Precision.Type.Half() {
		return
	}
	n := narrower{c: c, u: c.uses(), instrs: c.Instrs, half: make(map[kernels.Value]kernels.Value), wide: make(map[kernels.Value]kernels.Value)}
	kept := n.kept()
	if len(kept) < 2 {
		return
	}
	for _, v := range kept[:len(kept)-1] {
		n.half[v] = kernels.None
	}
	back := c.Backward
	c.Instrs = make([]ir.Instr, 0, len(n.instrs)+2*len(kept))
	for _, in := range n.instrs {
		in.In = slices.Clone(in.In)
		for k, v := range in.In {
			if _, ok := n.half[n.unshaped(v)]; !ok {
				continue
			}
			switch {
			case k < 2 && kernels.OperandsOf(in.Attrs) == c.Precision.Type:
				in.In[k] = n.encoded(v)
			case in.Back:
				in.In[k] = n.decoded(v)
			}
		}
		c.Instrs = append(c.Instrs, in)
		for _, o := range in.Out {
			if _, ok := n.half[o]; ok {
				n.half[o] = n.apply(false, o, "encoded", kernels.Encode, kernels.EncodeAttrs{To: c.Precision.Type}, o)
			}
		}
	}
	c.Backward = back
}

// narrower is the work of the pass on the instructions that there were before it.
type narrower struct {
	c      *compiler
	u      uses
	instrs []ir.Instr
	half   map[kernels.Value]kernels.Value // what activations, and reshapes of them, are in 16 bits, None before they are made
	wide   map[kernels.Value]kernels.Value // what activations, and reshapes of them, are to the backward pass
}

// apply appends an instruction that belongs to activation v.
func (n *narrower) apply(back bool, v kernels.Value, what string, op *kernels.Op, attrs any, in kernels.Value) kernels.Value {
	val := n.c.Values[v]
	n.c.Label, n.c.Owner, n.c.Mark, n.c.Backward = val.Name+" "+what, val.Owner, "", back
	return n.c.Apply(op, attrs, in)
}

// encoded returns v, an activation that is kept or a reshape of one, in 16 bits.
func (n *narrower) encoded(v kernels.Value) kernels.Value {
	if h, ok := n.half[v]; ok {
		return h
	}
	view := n.instrs[n.u.maker[v]]
	n.half[v] = n.apply(false, v, "encoded", view.Op, view.Attrs, n.encoded(view.In[0]))
	return n.half[v]
}

// decoded returns v, an activation that is kept or a reshape of one, for the backward pass.
func (n *narrower) decoded(v kernels.Value) kernels.Value {
	if w, ok := n.wide[v]; ok {
		return w
	}
	if view := n.instrs[n.u.maker[v]]; n.unshaped(v) != v {
		n.wide[v] = n.apply(true, v, "decoded", view.Op, view.Attrs, n.decoded(view.In[0]))
	} else {
		n.wide[v] = n.apply(true, v, "decoded", kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 1}, n.half[v])
	}
	return n.wide[v]
}

// unshaped follows reshapes of the forward pass from v back to what they are of.
func (n *narrower) unshaped(v kernels.Value) kernels.Value {
	for at := n.u.maker[v]; at >= 0 && n.instrs[at].Op == kernels.Reshape && !n.instrs[at].Back && !n.c.Values[v].Home; at = n.u.maker[v] {
		v = n.instrs[at].In[0]
	}
	return v
}

// kept returns the values that may wait in 16 bits, in the order in which they are made: float32 values of scratch, of two dimensions or more, that
// the forward pass makes and the backward pass reads, but for those that it has to know exactly. Data are not among them, decoded or gathered: they are
// had again, or are as they would be in a slot.
// Invariant: the size of the batch decides nothing, so that a smaller one makes the same instructions.
func (n *narrower) kept() []kernels.Value {
	c, exact := n.c, n.exact()
	read := make([]bool, len(c.Values)) // by the backward pass
	for i := range c.Instrs {
		if in := &c.Instrs[i]; in.Back {
			for _, v := range in.In {
				read[n.unshaped(v)] = true
			}
		}
	}
	var kept []kernels.Value
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if in.Back || in.Op == kernels.Decode || in.Op == kernels.Reshape || in.Op == kernels.Gather && c.Values[in.In[0]].Ref.Region == ir.Resident {
			continue
		}
		for _, v := range in.Out {
			val := &c.Values[v]
			if read[v] && !exact[v] && !val.Home && val.Spec.Type == arena.Float32 && len(val.Spec.Shape) > 1 &&
				!slices.Contains(c.Precision.Float32, val.Owner) {
				kept = append(kept, v)
			}
		}
	}
	return kept
}

// exact returns, by value, whether the backward pass has to know it as it was: probabilities, logits, the statistics of norms, what is compared
// or has an effect, and all that layers read which stay in float32.
func (n *narrower) exact() []bool {
	exact := make([]bool, len(n.c.Values))
	for i := len(n.instrs) - 1; i >= 0; i-- {
		in := &n.instrs[i]
		if !in.Back {
			continue
		}
		whole := slices.Contains(n.c.Precision.Float32, in.Owner)
		for k, v := range in.In {
			if whole || exactOperand(in, k) || moves(in.Op) && exact[in.Out[0]] {
				exact[v], exact[n.unshaped(v)] = true, true
			}
		}
	}
	return exact
}

// moves reports whether op passes elements on as they are.
func moves(op *kernels.Op) bool {
	switch op {
	case kernels.Reshape, kernels.Broadcast, kernels.Transpose, kernels.Slice, kernels.Concat:
		return true
	}
	return false
}

// exactOperand reports whether in needs its operand k in float32.
func exactOperand(in *ir.Instr, k int) bool {
	switch in.Op {
	case kernels.CrossEntropyGrad, kernels.CrossEntropyDenseGrad, kernels.SoftmaxGrad, kernels.LogSoftmaxGrad, kernels.Host:
		return true
	case kernels.BatchNormGrad, kernels.LayerNormGrad, kernels.GroupNormGrad:
		return k != 0 // the image itself may be rounded
	case kernels.Chain:
		return slices.ContainsFunc(in.Attrs.(*kernels.ChainAttrs).Steps, func(s kernels.Step) bool { return compares(s.Op) })
	}
	return len(in.Op.Updates) > 0 || compares(in.Op)
}

// compares reports whether op decides by how its operands compare.
func compares(op *kernels.Op) bool {
	switch op {
	case kernels.Equal, kernels.NotEqual, kernels.Less, kernels.LessEqual, kernels.Greater, kernels.GreaterEqual:
		return true
	}
	return false
}
