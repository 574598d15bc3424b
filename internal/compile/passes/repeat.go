package passes

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// repeatDepth is the most elementwise operations that Repeat computes again for one reader, one
// after another.
const repeatDepth = 4

// Repeat computes constants, and what elementwise operations make of them and of other values,
// separately for each reader, right before the reader. It undoes a merge of two such values that
// are equal by chance, such as products with 0.2 and with 1/batch where the batch is 5: merged,
// they are live from the first reader to the last.
//
//	a = affine x 0.2           a = affine x 0.2
//	y = f a                    y = f a
//	…                   ──►    …
//	z = g y a                  a' = affine x 0.2
//	                           z = g y a'
//
// It computes more than it saves, unless memory is short. Needed values and those at homes stay.
func Repeat(p *ir.Program) {
	u := usesOf(p)
	depth := make(map[kernels.Value]int) // of the values that are computed again
	made := make(map[kernels.Value]ir.Instr)
	var out []ir.Instr
	var again func(v kernels.Value) kernels.Value
	again = func(v kernels.Value) kernels.Value {
		in, ok := made[v]
		if !ok {
			return v
		}
		operands := make([]kernels.Value, len(in.In))
		for k, x := range in.In {
			operands[k] = again(x)
		}
		in.In, in.Out = operands, []kernels.Value{p.Add(p.Values[v])}
		out = append(out, in)
		return in.Out[0]
	}
	for _, in := range p.Instrs {
		if d := constantDepth(&in, depth); d > 0 && d <= repeatDepth && !u.needed[in.Out[0]] && !p.Values[in.Out[0]].Home {
			depth[in.Out[0]], made[in.Out[0]] = d, in
			continue
		}
		for k, v := range in.In {
			in.In[k] = again(v)
		}
		out = append(out, in)
	}
	p.Instrs = out
}

// constantDepth returns 1 for an instruction that makes a constant, or that computes with a number
// among its attributes; for an elementwise operation on results of such, by depth, one more; else
// 0.
func constantDepth(in *ir.Instr, depth map[kernels.Value]int) (d int) {
	switch {
	case in.Op == kernels.Fill:
		return 1
	case in.Op.Elem == nil || len(in.Out) != 1:
		return 0
	case in.Attrs != nil:
		d = 1
	}
	for _, v := range in.In {
		if depth[v] > 0 {
			d = max(d, depth[v]+1)
		}
	}
	return d
}
