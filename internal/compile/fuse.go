package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Limits of one chain: what a device may count on.
const (
	maxChainInputs = 12
	maxChainSteps  = 24
)

// uses is who makes and reads each value of a program.
type uses struct {
	maker   []int32 // instruction that makes it, -1 for homes
	readers []int32 // how many operands read it
	reader  []int32 // the last of them
	root    []bool
}

func (c *compiler) uses() uses {
	n := len(c.Values)
	u := uses{maker: make([]int32, n), readers: make([]int32, n), reader: make([]int32, n), root: make([]bool, n)}
	for i := range u.maker {
		u.maker[i] = -1
	}
	for i, in := range c.Instrs {
		for _, v := range in.In {
			u.readers[v]++
			u.reader[v] = int32(i)
		}
		for _, o := range in.Out {
			u.maker[o] = int32(i)
		}
	}
	for _, v := range c.Roots {
		u.root[v] = true
	}
	return u
}

// private reports whether v is read once, and only inside scratch: its reader may swallow it.
func (c *compiler) private(u uses, v kernels.Value) bool {
	return u.readers[v] == 1 && !u.root[v] && !c.Values[v].Home && u.maker[v] >= 0
}

// epilogue is what a matmul, or a convolution, ends with.
type epilogue struct {
	bias     bool
	act      *kernels.Op
	actAttrs any
}

// epilogueOf returns what in ends with, and false where in is neither, or a product that is made where it is added, which ends with that.
func epilogueOf(in *ir.Instr) (epilogue, bool) {
	switch a := in.Attrs.(type) {
	case kernels.MatMulAttrs:
		return epilogue{a.Bias, a.Act, a.ActAttrs}, in.Op == kernels.MatMul && !a.Add
	case kernels.ConvAttrs:
		return epilogue{a.Bias, a.Act, a.ActAttrs}, in.Op == kernels.Conv
	}
	return epilogue{}, false
}

// of returns the attributes of an op that ends so.
func (e epilogue) of(attrs any) any {
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

// epilogues moves a bias, and then an activation, into the matmul or the convolution that they follow.
func (c *compiler) epilogues() {
	u := c.uses()
	gone := make([]bool, len(c.Instrs))
	flat := make(map[int]ir.Instr) // reshapes of biases, by the instruction that they go before
	for i := range c.Instrs {
		mm := &c.Instrs[i]
		if _, ok := epilogueOf(mm); !ok {
			continue
		}
		for j := c.next(u, mm.Out[0]); j >= 0; j = c.next(u, mm.Out[0]) {
			if !c.absorb(mm, &c.Instrs[j]) {
				break
			}
			if k := len(mm.In) - 1; k == 2 && len(c.Spec(mm.In[k]).Shape) > 1 { // a bias [1, N]
				flat[j] = c.flatten(mm, k)
			}
			// It moves to where its reader was, so that the bias exists there.
			c.Instrs[j], gone[i] = *mm, true
			u.maker[mm.Out[0]] = int32(j)
			mm, i = &c.Instrs[j], j
		}
	}
	if len(flat) == 0 {
		c.drop(gone)
		return
	}
	var kept []ir.Instr
	for i, in := range c.Instrs {
		if f, ok := flat[i]; ok {
			kept = append(kept, f)
		}
		if !gone[i] {
			kept = append(kept, in)
		}
	}
	c.Instrs = kept
}

// flatten makes operand k of in a vector, and returns the view that does it.
func (c *compiler) flatten(in *ir.Instr, k int) ir.Instr {
	from := c.Values[in.In[k]]
	spec := kernels.Spec{Type: from.Spec.Type, Shape: kernels.Shape{from.Spec.Shape.Elems()}}
	v := c.Add(ir.Value{Name: from.Name, Owner: from.Owner, Spec: spec, Of: kernels.None})
	view := ir.Instr{Op: kernels.Reshape, Attrs: kernels.ReshapeAttrs{Shape: spec.Shape}, In: []kernels.Value{in.In[k]},
		Out: []kernels.Value{v}, Label: from.Name, Owner: from.Owner}
	in.In[k] = v
	return view
}

// next returns the only reader of v, or -1.
func (c *compiler) next(u uses, v kernels.Value) int {
	if !c.private(u, v) {
		return -1
	}
	return int(u.reader[v])
}

// absorb makes next the epilogue of mm where it can be one.
func (c *compiler) absorb(mm, next *ir.Instr) bool {
	e, _ := epilogueOf(mm)
	out := c.Spec(mm.Out[0])
	if !c.Spec(next.Out[0]).Equal(out) || e.act != nil {
		return false
	}
	switch next.Op {
	case kernels.Add:
		bias, ok := c.bias(mm, next)
		if !ok || e.bias {
			return false
		}
		e.bias = true
		mm.In = append(slices.Clone(mm.In), bias)
	case kernels.Relu, kernels.LeakyRelu, kernels.Sigmoid, kernels.Tanh:
		e.act, e.actAttrs = next.Op, next.Attrs
	default:
		return false
	}
	mm.Attrs, mm.Out = e.of(mm.Attrs), next.Out
	mm.Label = next.Label
	return true
}

// bias returns what add adds to each row of a product [M, N], a value [N] or [1, N], or to each channel of a convolution's result
// [B, O, OH, OW], a value [O, 1, 1] or [1, O, 1, 1].
func (c *compiler) bias(mm, add *ir.Instr) (v kernels.Value, ok bool) {
	product := mm.Out[0]
	v = add.In[0]
	if v == product {
		v = add.In[1]
	}
	all, row := c.Spec(product).Shape, c.Spec(v).Shape
	if len(row) == len(all) && row[0] == 1 {
		row = row[1:]
	}
	switch {
	case v == product, mm.Op == kernels.MatMul && len(all) != 2, len(row) != len(all)-1, row[0] != all[1], row.Elems() != row[0]:
		return kernels.None, false
	case c.Values[v].Home && c.Values[v].Ref == c.Values[add.Out[0]].Ref: // the sum overwrites it
		return kernels.None, false
	}
	return v, true
}

// chains joins elementwise operations into one pass over memory: an operation takes in those that it alone reads and that
// have its shape, and theirs. The arithmetic stays the same, step for step.
func (c *compiler) chains() {
	u := c.uses()
	gone := make([]bool, len(c.Instrs))
	for i := len(c.Instrs) - 1; i >= 0; i-- {
		if gone[i] || !c.chainable(&c.Instrs[i]) {
			continue
		}
		b := chain{c: c, u: u, spec: c.Spec(c.Instrs[i].Out[0])}
		if b.grow(i); len(b.members)+len(b.fills) < 2 {
			continue
		}
		for _, m := range b.members[1:] {
			gone[m] = true
		}
		attrs, in, labels := b.build()
		last := &c.Instrs[i]
		last.Op, last.Attrs, last.In, last.Steps = kernels.Chain, attrs, in, labels
	}
	c.drop(gone)
}

func (c *compiler) chainable(in *ir.Instr) bool {
	if in.Op.Elem == nil || len(in.Out) != 1 {
		return false
	}
	out := c.Spec(in.Out[0])
	for _, v := range in.In {
		if c.Spec(v).Type != out.Type {
			return false
		}
	}
	return true
}

// chain is a chain under construction. Its first member is the instruction whose output the chain makes.
type chain struct {
	c       *compiler
	u       uses
	spec    kernels.Spec
	members []int
	inputs  []kernels.Value
	fills   []kernels.Value // constants that steps hold themselves
}

// grow makes the chain of instruction i, and of all that can join: it takes in the maker of one input after the other.
func (b *chain) grow(i int) {
	b.join(i, 0)
	for k := 0; k < len(b.inputs); {
		v := b.inputs[k]
		if !b.c.private(b.u, v) || !b.c.Spec(v).Equal(b.spec) || !b.c.chainable(&b.c.Instrs[b.u.maker[v]]) {
			k++
			continue
		}
		inputs := b.inputs
		b.inputs = slices.Delete(slices.Clone(inputs), k, k+1)
		if !b.join(int(b.u.maker[v]), k) {
			b.inputs = inputs
			k++
		}
	}
}

// join makes instruction i a member, whose operands become inputs from k on, unless that is beyond the limits.
func (b *chain) join(i, k int) bool {
	inputs, fills := b.inputs, b.fills
	for _, v := range b.c.Instrs[i].In {
		switch {
		case slices.Contains(inputs, v) || slices.Contains(fills, v):
		case b.immediate(v) && len(b.members)+len(fills)+1 < maxChainSteps:
			fills = append(slices.Clone(fills), v)
		default:
			inputs = slices.Insert(slices.Clone(inputs), k, v)
			k++
		}
	}
	if len(inputs) > maxChainInputs || len(b.members)+1+len(fills) > maxChainSteps {
		return false
	}
	b.members, b.inputs, b.fills = append(b.members, i), inputs, fills
	return true
}

// immediate reports whether v is a constant that a step can hold itself.
func (b *chain) immediate(v kernels.Value) bool {
	m := b.u.maker[v]
	return m >= 0 && b.c.Instrs[m].Op == kernels.Fill && b.c.Spec(v).Type == b.spec.Type
}

// build returns the chain's steps, in execution order, its inputs, and the steps' labels.
func (b *chain) build() (*kernels.ChainAttrs, []kernels.Value, []string) {
	var labels []string
	attrs := &kernels.ChainAttrs{}
	place := make(map[kernels.Value]int)
	for k, v := range b.inputs {
		place[v] = k
	}
	step := func(s kernels.Step, v kernels.Value, label string) {
		place[v] = len(b.inputs) + len(attrs.Steps)
		attrs.Steps = append(attrs.Steps, s)
		labels = append(labels, label)
	}
	members := slices.Clone(b.members)
	slices.Sort(members)
	for _, m := range members {
		in := b.c.Instrs[m]
		for _, v := range in.In {
			if _, ok := place[v]; !ok {
				fill := b.c.Instrs[b.u.maker[v]]
				step(kernels.Step{Op: fill.Op, Attrs: fill.Attrs, A: -1, B: -1}, v, fill.Label)
			}
		}
		s := kernels.Step{Op: in.Op, Attrs: in.Attrs, A: place[in.In[0]], B: -1}
		if len(in.In) > 1 {
			s.B = place[in.In[1]]
		}
		step(s, in.Out[0], in.Label)
	}
	return attrs, b.inputs, labels
}

// drop removes the marked instructions.
func (c *compiler) drop(gone []bool) {
	kept := c.Instrs[:0]
	for i, in := range c.Instrs {
		if !gone[i] {
			kept = append(kept, in)
		}
	}
	c.Instrs = kept
}
