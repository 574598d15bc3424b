package passes

import (
	"math"
	"reflect"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Merge computes equal instructions once (common subexpression elimination, by value numbering):
// the readers of the later one read the result of the first. So a gradient rule may compute a part
// of the forward pass again at no cost.
//
//	a = tanh x             a = tanh x
//	b = tanh x      ──►    c = mul a a
//	c = mul a b
//
// Instructions with an effect stay, and so do results with a home and fallbacks, which may keep
// state.
func Merge(p *ir.Program) {
	// key is cheap to compare: candidates with the same key are then compared in full.
	type key struct {
		op    *kernels.Op
		first kernels.Value
		n     int
		attrs uint64 // see attrsKey
	}
	seen := make(map[key][]int)
	same := unchanged(len(p.Values))
	kept := p.Instrs[:0]
	for _, in := range p.Instrs {
		substitute(in.In, same)
		k := key{op: in.Op, first: kernels.None, n: len(in.In)}
		if len(in.In) > 0 {
			k.first = in.In[0]
		}
		k.attrs = attrsKey(in.Attrs)
		if in.Op != kernels.Host && len(in.Op.Updates) == 0 && !p.Values[in.Out[0]].Home {
			if j, ok := equal(in, kept, seen[k]); ok {
				for i, o := range in.Out {
					same[o] = kept[j].Out[i]
				}
				continue
			}
			seen[k] = append(seen[k], len(kept))
		}
		kept = append(kept, in)
	}
	p.Instrs = kept
	substitute(p.Needed, same)
	for i, r := range p.Results {
		p.Results[i].Value = same[r.Value]
	}
}

// attrsKey returns a number that is the same for equal attributes, and differs for most constants,
// which read nothing, and for most slices of one value, such as time steps.
func attrsKey(attrs any) (key uint64) {
	switch a := attrs.(type) {
	case kernels.FillAttrs:
		return math.Float64bits(a.Value)
	case kernels.SliceAttrs:
		for i, start := range a.Start {
			key = (key*1_000_003+uint64(start))*1_000_003 + uint64(a.End[i])
		}
	}
	return key
}

// equal returns the index of a kept instruction that computes the same as in.
func equal(in ir.Instr, kept []ir.Instr, candidates []int) (int, bool) {
	for _, j := range candidates {
		if reflect.DeepEqual(kept[j].In, in.In) && reflect.DeepEqual(kept[j].Attrs, in.Attrs) {
			return j, true
		}
	}
	return 0, false
}

// unchanged returns the substitution of n values that changes nothing.
func unchanged(n int) []kernels.Value {
	same := make([]kernels.Value, n)
	for i := range same {
		same[i] = kernels.Value(i)
	}
	return same
}

// substitute replaces each of vs by its entry in to.
func substitute(vs, to []kernels.Value) {
	for i, v := range vs {
		vs[i] = to[v]
	}
}
