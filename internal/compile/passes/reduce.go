package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Reduce fuses elementwise operations into the sum, mean or maximum that is the only reader of their
// result, as its prologue. The result between them then needs no memory. It runs after Fuse, which
// has made chains; a single operation becomes a chain of one step.
//
//	a = chain{sub, square} x y            s = chain{sub, square; sum} x y
//	s = sum a                      ──►
//
// A reduction to as many elements as before stays, and so does one whose result has the home of an
// operand.
func Reduce(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Op != kernels.Sum && in.Op != kernels.Mean && in.Op != kernels.Max {
			continue
		}
		x := in.In[0]
		if !u.private(x) || p.Spec(x).Shape.Elems() == p.Spec(in.Out[0]).Shape.Elems() {
			continue
		}
		prologue := &p.Instrs[u.maker[x]]
		a, steps := asChain(p, prologue)
		if a == nil || overwrites(p, in.Out[0], prologue.In) {
			continue
		}
		a.Reduce, a.ReduceAttrs = in.Op, in.Attrs.(kernels.ReduceAttrs)
		gone[u.maker[x]] = true
		in.Op, in.Attrs, in.In, in.Steps = kernels.Chain, a, prologue.In, steps
	}
	remove(p, gone)
}

// asChain returns the attributes of a chain that computes the same as in, and its steps' labels;
// nil where in is not elementwise.
func asChain(p *ir.Program, in *ir.Instr) (*kernels.ChainAttrs, []string) {
	switch a, ok := in.Attrs.(*kernels.ChainAttrs); {
	case ok && a.Reduce == nil:
		return &kernels.ChainAttrs{Steps: a.Steps}, in.Steps
	case ok || !elementwise(p, in):
		return nil, nil
	}
	s := kernels.Step{Op: in.Op, Attrs: in.Attrs, A: 0, B: -1}
	if len(in.In) > 1 {
		s.B = 1
	}
	return &kernels.ChainAttrs{Steps: []kernels.Step{s}}, []string{in.Label}
}

// overwrites reports whether v has the home of one of the operands.
func overwrites(p *ir.Program, v kernels.Value, operands []kernels.Value) bool {
	return p.Values[v].Home && slices.ContainsFunc(operands, func(x kernels.Value) bool {
		return p.Values[x].Home && p.Values[x].Ref == p.Values[v].Ref
	})
}
