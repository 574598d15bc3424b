package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// DecodeAttrs are the attributes of Decode.
type DecodeAttrs struct {
	To           arena.DType // float
	Scale, Shift float64
}

// Decode converts stored data to floats.
//
//	x [...] of any type → y [...] of type To
//
// y = Scale·x + Shift. Only floats have a gradient.
var Decode = Register(&Op{
	Name: "decode",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[DecodeAttrs]("decode", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("decode", in, 1); err != nil {
			return nil, err
		}
		if !a.To.Float() {
			return nil, attrError("decode", "to %v, which is no float type", a.To)
		}
		return []Spec{{a.To, in[0].Shape}}, nil
	},
	Elem: elemDecode,
	Ref:  func(attrs any, in, out []Tensor) { refElem(elemDecode, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		from := randomType(r, float)
		if r.IntN(3) == 0 {
			from = randomHalf(r)
		}
		return Case{
			Attrs: DecodeAttrs{float, r.NormFloat64() / 64, r.NormFloat64()},
			In:    []Spec{{from, randomShape(r, randomRank(r))}},
			Fill:  fillAny,
		}
	},
})

func init() {
	Decode.Grad = func(g Graph, n Node, dy []Value) []Value {
		t := g.Spec(n.In[0]).Type
		if !t.Float() {
			return []Value{None}
		}
		return []Value{g.Apply(Decode, DecodeAttrs{To: t, Scale: n.Attrs.(DecodeAttrs).Scale}, dy[0])}
	}
}

func elemDecode(attrs any, x, _ float64) float64 {
	a := attrs.(DecodeAttrs)
	return a.Scale*x + a.Shift
}
