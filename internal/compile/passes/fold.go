package passes

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Fold computes operations on constants at compile time: an instruction whose operands are all
// constants (kernels.Fill) becomes one. It folds reshapes, broadcasts, tests for equality, and the
// arithmetic that IEEE 754 rounds correctly, so that the bits are those of every device. Results with
// a home, or that another instruction overwrites, stay as they are.
//
//	a = fill 2            a = fill 2
//	b = fill 3     ──►    b = fill 3
//	c = mul a b           c = fill 6
func Fold(p *ir.Program) {
	fills, changed := make(map[kernels.Value]kernels.FillAttrs), overwritten(p)
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Op == kernels.Fill {
			fills[in.Out[0]] = in.Attrs.(kernels.FillAttrs)
			continue
		}
		if len(in.Out) != 1 || p.Values[in.Out[0]].Home || changed[in.Out[0]] || len(in.In) == 0 {
			continue
		}
		if x, ok := folded(in, fills); ok {
			s := p.Spec(in.Out[0])
			f := kernels.FillAttrs{Type: s.Type, Shape: s.Shape, Value: x}
			in.Op, in.Attrs, in.In = kernels.Fill, f, nil
			fills[in.Out[0]] = f
		}
	}
}

// folded returns the constant that in computes from constants.
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
		if a.Shift != 0 && a.Scale != 1 { // a device may fuse multiply and add, or round in between
			return 0, false
		}
		return kernels.Round(t, kernels.Round(t, a.Scale)*x[0]+kernels.Round(t, a.Shift)), true
	case kernels.Neg, kernels.Add, kernels.Sub, kernels.Mul, kernels.Div, kernels.Equal, kernels.NotEqual:
		return kernels.Round(t, in.Op.Elem(in.Attrs, x[0], x[1])), true
	}
	return 0, false
}
