package compile

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// fold computes what is the same in every element for every batch: shapes and exact arithmetic of constants become constants. Only
// operations that IEEE 754 rounds correctly are folded, so that the bits stay those of the device.
func (c *compiler) fold() {
	fills := make(map[kernels.Value]kernels.FillAttrs)
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if in.Op == kernels.Fill {
			fills[in.Out[0]] = in.Attrs.(kernels.FillAttrs)
			continue
		}
		if len(in.Out) != 1 || c.Values[in.Out[0]].Home || len(in.In) == 0 {
			continue
		}
		if v, ok := folded(in, fills); ok {
			s := c.Spec(in.Out[0])
			f := kernels.FillAttrs{Type: s.Type, Shape: s.Shape, Value: v}
			in.Op, in.Attrs, in.In = kernels.Fill, f, nil
			fills[in.Out[0]] = f
		}
	}
}

// folded returns the constant that in makes of constants.
func folded(in *ir.Instr, fills map[kernels.Value]kernels.FillAttrs) (float64, bool) {
	var x [2]float64
	for k, v := range in.In {
		f, ok := fills[v]
		if !ok || k >= len(x) {
			return 0, false
		}
		x[k] = f.Value
	}
	t := fills[in.In[0]].Type
	switch in.Op {
	case kernels.Reshape, kernels.Broadcast:
		return x[0], true
	case kernels.Affine:
		a := in.Attrs.(kernels.AffineAttrs)
		if a.Shift != 0 && a.Scale != 1 {
			return 0, false
		}
		return kernels.Round(t, kernels.Round(t, a.Scale)*x[0]+kernels.Round(t, a.Shift)), true
	case kernels.Neg, kernels.Add, kernels.Sub, kernels.Mul, kernels.Div:
		return kernels.Round(t, in.Op.Elem(in.Attrs, x[0], x[1])), true
	}
	return 0, false
}

// redecode decodes a field again for each of its readers, just before it: the stored form is small and stays in the slot, the
// decoded one need not live from the forward pass to the backward one.
func (c *compiler) redecode() {
	decoded := make(map[kernels.Value]ir.Instr)
	u := c.uses()
	var out []ir.Instr
	for _, in := range c.Instrs {
		if in.Op == kernels.Decode && u.readers[in.Out[0]] > 1 && !u.root[in.Out[0]] && c.Spec(in.In[0]).Bytes() < c.Spec(in.Out[0]).Bytes() {
			decoded[in.Out[0]] = in
			continue
		}
		for k, v := range in.In {
			d, ok := decoded[v]
			if !ok {
				continue
			}
			again := d
			val := c.Values[v]
			again.Out = []kernels.Value{c.Add(val)}
			in.In[k] = again.Out[0]
			out = append(out, again)
		}
		out = append(out, in)
	}
	c.Instrs = out
}
