package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Limits of one chain: every device supports these.
const (
	maxChainInputs = 12
	maxChainSteps  = 24
)

// chains joins elementwise operations into one instruction, which reads and writes memory once. It
// starts at the last operation and goes back: the operation that makes an input of the chain becomes
// a step if nothing else reads that input, and it has the chain's type and shape. Constants become
// steps.
//
//	a = mul x y               c = chain{mul, tanh, add} x y z
//	b = tanh a         ──►
//	c = add b z
func chains(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		if gone[i] || !elementwise(p, &p.Instrs[i]) {
			continue
		}
		c := chain{uses: u, spec: p.Spec(p.Instrs[i].Out[0])}
		if c.grow(i); len(c.members)+len(c.fills) < 2 {
			continue
		}
		for _, m := range c.members[1:] {
			gone[m] = true
		}
		attrs, in, labels := c.build()
		last := &p.Instrs[i]
		last.Op, last.Attrs, last.In, last.Steps = kernels.Chain, attrs, in, labels
	}
	remove(p, gone)
}

// elementwise reports whether in can be a step of a chain: one result, of the type of all operands.
func elementwise(p *ir.Program, in *ir.Instr) bool {
	if in.Op.Elem == nil || len(in.Out) != 1 {
		return false
	}
	out := p.Spec(in.Out[0])
	return !slices.ContainsFunc(in.In, func(v kernels.Value) bool { return p.Spec(v).Type != out.Type })
}

// chain is a chain under construction. Its first member is the instruction whose result the chain
// makes.
type chain struct {
	uses
	spec    kernels.Spec
	members []int
	inputs  []kernels.Value
	fills   []kernels.Value // constants that steps hold themselves
}

// grow makes the chain that ends with instruction i: it joins the makers of inputs, one after the
// other.
//
// Invariant: inputs before index k cannot be joined.
func (c *chain) grow(i int) {
	c.join(i, 0)
	for k := 0; k < len(c.inputs); {
		v := c.inputs[k]
		if !c.private(v) || !c.p.Spec(v).Equal(c.spec) || !elementwise(c.p, &c.p.Instrs[c.maker[v]]) {
			k++
			continue
		}
		inputs := c.inputs
		c.inputs = slices.Delete(slices.Clone(inputs), k, k+1)
		if !c.join(int(c.maker[v]), k) {
			c.inputs = inputs
			k++
		}
	}
}

// join makes instruction i a member, with its operands as inputs from index k on. It returns false,
// changing nothing, where that exceeds a limit.
func (c *chain) join(i, k int) bool {
	inputs, fills := c.inputs, c.fills
	for _, v := range c.p.Instrs[i].In {
		switch {
		case slices.Contains(inputs, v) || slices.Contains(fills, v):
		case c.immediate(v) && len(c.members)+len(fills)+1 < maxChainSteps:
			fills = append(slices.Clone(fills), v)
		default:
			inputs = slices.Insert(slices.Clone(inputs), k, v)
			k++
		}
	}
	if len(inputs) > maxChainInputs || len(c.members)+1+len(fills) > maxChainSteps {
		return false
	}
	c.members, c.inputs, c.fills = append(c.members, i), inputs, fills
	return true
}

// immediate reports whether v is a constant that a step can hold itself.
func (c *chain) immediate(v kernels.Value) bool {
	m := c.maker[v]
	return m >= 0 && c.p.Instrs[m].Op == kernels.Fill && c.p.Spec(v).Type == c.spec.Type
}

// build returns the chain's steps in the order in which they run, its inputs, and the steps'
// labels.
func (c *chain) build() (*kernels.ChainAttrs, []kernels.Value, []string) {
	var labels []string
	attrs := &kernels.ChainAttrs{}
	place := make(map[kernels.Value]int) // of inputs, then of the results of steps
	for k, v := range c.inputs {
		place[v] = k
	}
	step := func(s kernels.Step, v kernels.Value, label string) {
		place[v] = len(c.inputs) + len(attrs.Steps)
		attrs.Steps = append(attrs.Steps, s)
		labels = append(labels, label)
	}
	members := slices.Clone(c.members)
	slices.Sort(members)
	for _, m := range members {
		in := c.p.Instrs[m]
		for _, v := range in.In {
			if _, ok := place[v]; !ok {
				fill := c.p.Instrs[c.maker[v]]
				step(kernels.Step{Op: fill.Op, Attrs: fill.Attrs, A: -1, B: -1}, v, fill.Label)
			}
		}
		s := kernels.Step{Op: in.Op, Attrs: in.Attrs, A: place[in.In[0]], B: -1}
		if len(in.In) > 1 {
			s.B = place[in.In[1]]
		}
		step(s, in.Out[0], in.Label)
	}
	return attrs, c.inputs, labels
}
