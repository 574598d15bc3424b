package compile

import (
	"math"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// merge computes equal instructions once. Those with an effect, and fallbacks, which may keep state, stay as they are.
func (c *compiler) merge() {
	type key struct {
		op *kernels.Op
		a  kernels.Value
		n  int
		x  uint64 // bits of a constant
	}
	seen := make(map[key][]int)
	same := c.identity()
	kept := c.Instrs[:0]
	for _, in := range c.Instrs {
		rename(in.In, same)
		k := key{op: in.Op, a: kernels.None, n: len(in.In)}
		if len(in.In) > 0 {
			k.a = in.In[0]
		}
		if f, ok := in.Attrs.(kernels.FillAttrs); ok {
			k.x = math.Float64bits(f.Value)
		}
		if in.Op != kernels.Host && len(in.Op.Updates) == 0 && !c.Values[in.Out[0]].Home {
			if j, ok := twin(in, kept, seen[k]); ok {
				for i, o := range in.Out {
					same[o] = kept[j].Out[i]
				}
				continue
			}
			seen[k] = append(seen[k], len(kept))
		}
		kept = append(kept, in)
	}
	c.Instrs = kept
	rename(c.Roots, same)
	for i, r := range c.Results {
		c.Results[i].Value = same[r.Value]
	}
}

// twin returns the index of a kept instruction that is equal to in.
func twin(in ir.Instr, kept []ir.Instr, candidates []int) (int, bool) {
	for _, j := range candidates {
		if reflect.DeepEqual(kept[j].In, in.In) && reflect.DeepEqual(kept[j].Attrs, in.Attrs) {
			return j, true
		}
	}
	return 0, false
}

// prune removes instructions whose results nobody reads.
func (c *compiler) prune() {
	live := make([]bool, len(c.Values))
	for _, v := range c.Roots {
		live[v] = true
	}
	gone := make([]bool, len(c.Instrs))
	for i := len(c.Instrs) - 1; i >= 0; i-- {
		in := c.Instrs[i]
		if gone[i] = !slices.ContainsFunc(in.Out, func(o kernels.Value) bool { return live[o] }); gone[i] {
			continue
		}
		for _, v := range in.In {
			live[v] = true
		}
	}
	c.drop(gone)
}

// identity returns the renaming that changes nothing.
func (c *compiler) identity() []kernels.Value {
	same := make([]kernels.Value, len(c.Values))
	for i := range same {
		same[i] = kernels.Value(i)
	}
	return same
}

func rename(vs, to []kernels.Value) {
	for i, v := range vs {
		vs[i] = to[v]
	}
}
