package passes

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Redecode decodes a field of the batch separately for each of its readers, right before the
// reader. The stored form is smaller and stays (in the slot; gathered rows of resident data in
// scratch), so that the decoded one need not stay live from the forward pass to the backward pass.
//
//	x = decode s            x = decode s
//	y = f x                 y = f x
//	…                ──►    …
//	dw = g x dy             x' = decode s
//	                        dw = g x' dy
//
// Fields with one reader, and those that decoding does not enlarge, stay as they are.
func Redecode(p *ir.Program) {
	decoded := make(map[kernels.Value]ir.Instr)
	u := usesOf(p)
	var out []ir.Instr
	for _, in := range p.Instrs {
		if in.Op == kernels.Decode && enlarges(p, &in) && u.readCount[in.Out[0]] > 1 && !u.needed[in.Out[0]] {
			decoded[in.Out[0]] = in
			continue
		}
		for k, v := range in.In {
			d, ok := decoded[v]
			if !ok {
				continue
			}
			d.Out = []kernels.Value{p.Add(p.Values[v])}
			in.In[k] = d.Out[0]
			out = append(out, d)
		}
		out = append(out, in)
	}
	p.Instrs = out
}

// enlarges reports whether the result of in has more bytes than its operand.
func enlarges(p *ir.Program, in *ir.Instr) bool {
	return p.Spec(in.In[0]).Bytes() < p.Spec(in.Out[0]).Bytes()
}
