package passes

import (
	"math"
	"math/bits"
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
// Instructions with an effect stay, and so do results with a home, results that another instruction
// overwrites, and fallbacks, which may keep state.
func Merge(p *ir.Program) {
	// key is cheap to compare: candidates with the same key are then compared in full.
	type key struct {
		op        *kernels.Op
		in, attrs uint64
	}
	seen := make(map[key][]int)
	same, changed := unchanged(len(p.Values)), overwritten(p)
	kept := p.Instrs[:0]
	for _, in := range p.Instrs {
		substitute(in.In, same)
		if in.Op != kernels.Host && len(in.Op.Updates) == 0 && !p.Values[in.Out[0]].Home && !changed[in.Out[0]] {
			k := key{op: in.Op, in: uint64(len(in.In)), attrs: attrsKey(reflect.Indirect(reflect.ValueOf(in.Attrs)))}
			for _, v := range in.In {
				k.in = mixed(k.in, uint64(v))
			}
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

// overwritten reports for each value whether an instruction changes it, or a view of it, in place.
func overwritten(p *ir.Program) []bool {
	changed := make([]bool, len(p.Values))
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		in := &p.Instrs[i]
		for _, k := range in.Op.UpdatesFor(in.Attrs) {
			changed[in.In[k]] = true
		}
		if in.Op.View != nil && changed[in.Out[0]] {
			changed[in.In[0]] = true
		}
	}
	return changed
}

// attrsKey returns a number that is the same for attributes of equal contents, and differs for most
// others: a graph may have thousands of constants, time steps of one sequence, or scaled copies of one
// value. Numbers count by their bits: 0 and -0 differ. What attributes point to does not count.
func attrsKey(v reflect.Value) (key uint64) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			key = 1
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		key = uint64(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		key = v.Uint()
	case reflect.Float32, reflect.Float64:
		key = math.Float64bits(v.Float())
	case reflect.String:
		for _, c := range []byte(v.String()) {
			key = mixed(key, uint64(c))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			key = mixed(key, attrsKey(v.Field(i)))
		}
	case reflect.Slice, reflect.Array:
		key = uint64(v.Len())
		for i := range v.Len() {
			key = mixed(key, attrsKey(v.Index(i)))
		}
	}
	return key
}

// mixed returns a number that depends on key and on x, and on their order.
func mixed(key, x uint64) uint64 {
	h := (bits.RotateLeft64(key, 5) ^ x) * 0x9e3779b97f4a7c15 // the golden ratio, as in Fibonacci hashing
	return h ^ h>>32
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
