package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// reductions lets a sum, mean or maximum take in the elementwise operations that only it reads: their result then never exists as
// a whole. It runs after chains are made, and makes one of an operation that stands alone.
func (c *compiler) reductions() {
	u := c.uses()
	gone := make([]bool, len(c.Instrs))
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if in.Op != kernels.Sum && in.Op != kernels.Mean && in.Op != kernels.Max {
			continue
		}
		x := in.In[0]
		if !c.private(u, x) || c.Spec(x).Shape.Elems() == c.Spec(in.Out[0]).Shape.Elems() {
			continue
		}
		last := &c.Instrs[u.maker[x]]
		a, steps := c.asChain(last)
		if a == nil || c.overwrites(in.Out[0], last.In) {
			continue
		}
		a.Reduce, a.ReduceAttrs = in.Op, in.Attrs.(kernels.ReduceAttrs)
		gone[u.maker[x]] = true
		in.Op, in.Attrs, in.In, in.Steps = kernels.Chain, a, last.In, steps
	}
	c.drop(gone)
}

// asChain returns the attributes of a chain that computes what in does, and its steps' labels; nil where in is not elementwise.
func (c *compiler) asChain(in *ir.Instr) (*kernels.ChainAttrs, []string) {
	switch a, ok := in.Attrs.(*kernels.ChainAttrs); {
	case ok && a.Reduce == nil:
		return &kernels.ChainAttrs{Steps: a.Steps}, in.Steps
	case ok || !c.chainable(in):
		return nil, nil
	}
	s := kernels.Step{Op: in.Op, Attrs: in.Attrs, A: 0, B: -1}
	if len(in.In) > 1 {
		s.B = 1
	}
	return &kernels.ChainAttrs{Steps: []kernels.Step{s}}, []string{in.Label}
}

// overwrites reports whether v has the home of one of the operands.
func (c *compiler) overwrites(v kernels.Value, operands []kernels.Value) bool {
	return c.Values[v].Home && slices.ContainsFunc(operands, func(x kernels.Value) bool {
		return c.Values[x].Home && c.Values[x].Ref == c.Values[v].Ref
	})
}
